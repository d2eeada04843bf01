/* settings.h - the parts of settings.c that other files use beside retrace_ext.h. */
#ifndef RT_SETTINGS_H
#define RT_SETTINGS_H

#include "retrace_ext.h"

/* The row of that name, or NULL. */
const retrace_setting_info *rt_setting_find(const retrace_setting_info *table, const char *name);
/* Parses v into the field of self that the row describes. owner ("phrases", or "") opens the
 * message. */
int rt_setting_put(void *self, const retrace_setting_info *row, retrace_text v, const char *owner,
                   retrace_error *err);
/* Presets only. */
int rt_settings_preset(void *self, const retrace_setting_info *table, retrace_error *err);
/* EUSAGE names a number or choice of self that is out of its row's range. */
int rt_settings_check(const void *self, const retrace_setting_info *table, retrace_error *err);

#endif
