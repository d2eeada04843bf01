/* options.c - the settings of a run: their table, defaults and checks. */
#include "base.h"
#include "run.h"
#include "settings.h"

#include <math.h>
#include <string.h>

#define AT(field) offsetof(retrace_options, field)

static const retrace_setting_info infos[] = {
    {"max_tokens", RETRACE_INT, AT(max_tokens), "512", -1, 1e9, NULL,
     "tokens to keep at most; -1: until the context is full"},
    {"seed", RETRACE_INT, AT(seed), "-1", -1, (double)INT64_MAX, NULL,
     "of all chance; -1: drawn by the program and reported"},
    {"temp", RETRACE_REAL, AT(temp), "0.8", 0, 1000, NULL,
     "temperature; 0: always the most probable token"},
    {"top_k", RETRACE_INT, AT(top_k), "40", 0, 1e9, NULL,
     "keep the k most probable tokens; 0: all"},
    {"top_p", RETRACE_REAL, AT(top_p), "0.95", 0, 1, NULL,
     "keep the most probable tokens that together reach p; 1: all"},
    {"min_p", RETRACE_REAL, AT(min_p), "0.05", 0, 1, NULL,
     "keep tokens at least p times as probable as the best; 0: all"},
    {"typical", RETRACE_REAL, AT(typical), "1", 0, 1, NULL,
     "keep the tokens whose surprise is nearest to the entropy, up to mass p; 1: all"},
    {"repeat_penalty", RETRACE_REAL, AT(repeat_penalty), "1", 0.01, 100, NULL,
     "divides the logits of tokens among the last repeat_last_n of prompt and answer; 1: off"},
    {"repeat_last_n", RETRACE_INT, AT(repeat_last_n), "64", -1, 1e9, NULL,
     "tokens that repeat_penalty looks back; -1: all; 0: none"},
    {"presence_penalty", RETRACE_REAL, AT(presence_penalty), "0", -100, 100, NULL,
     "taken from the logits of tokens that the answer holds"},
    {"frequency_penalty", RETRACE_REAL, AT(frequency_penalty), "0", -100, 100, NULL,
     "taken from a token's logit once per time the answer holds it"},
    {"ignore_eos", RETRACE_BOOL, AT(ignore_eos), "false", 0, 0, NULL, "never draw an end token"},
    {"hold", RETRACE_CHOICE, AT(hold), "minimal", 0, 0, "minimal|all",
     "let text out as soon as nothing can erase it, or all of it at the end"},
    {"resample", RETRACE_CHOICE, AT(resample), "local", 0, 0, "local|exact",
     "after a rejection: draw again where it began, or so that the model's own law is kept"},
    {"on_stuck", RETRACE_CHOICE, AT(on_stuck), "fail", 0, 0, "fail|stop|allow",
     "when every way on is banned: give up, return what stood there, or let one hit through"},
    {"stuck_mass", RETRACE_REAL, AT(stuck_mass), "0.001", 0, 1, NULL,
     "a place is exhausted when less of the model's probability than this is left unbanned"},
    {"max_rewinds", RETRACE_INT, AT(max_rewinds), "-1", -1, 1e15, NULL,
     "-1: 4 max_tokens + 1024; resample exact: no limit"},
    {"max_evaluated", RETRACE_INT, AT(max_evaluated), "-1", -1, 1e15, NULL,
     "token rows given to the model after the prompt; -1: 16 max_tokens + 1024"},
    {"logprobs", RETRACE_INT, AT(logprobs), "-1", -1, 1000, NULL,
     "log-probabilities of the kept tokens and of this many beside each; -1: none"},
    {0},
};

const retrace_setting_info *retrace_options_infos(void) {
    return infos;
}

void retrace_options_default(retrace_options *o) {
    memset(o, 0, sizeof *o);
    rt_settings_preset(o, infos, NULL);
}

int retrace_options_set(retrace_options *o, retrace_setting s, retrace_error *err) {
    rt_clear(err);
    const retrace_setting_info *row = rt_setting_find(infos, s.name);
    if (!row) return retrace_fail(err, RETRACE_EUSAGE, "unknown setting '%s'", s.name);
    return rt_setting_put(o, row, s.value, "", err);
}

static int check_bias(const retrace_options *o, int vocab, retrace_error *err) {
    for (int i = 0; i < o->n_bias; i++) {
        if (o->bias[i].id < 0 || o->bias[i].id >= vocab)
            return retrace_fail(err, RETRACE_EUSAGE,
                                "logit_bias: token %d is outside the vocabulary of %d",
                                (int)o->bias[i].id, vocab);
        if (isnan(o->bias[i].bias) || o->bias[i].bias == INFINITY)
            return retrace_fail(err, RETRACE_EUSAGE,
                                "logit_bias: token %d: not a number or -infinity",
                                (int)o->bias[i].id);
    }
    return RETRACE_OK;
}

static int check_stops(const retrace_options *o, retrace_error *err) {
    for (int i = 0; i < o->n_stops; i++) {
        if (o->stops[i].n == 0)
            return retrace_fail(err, RETRACE_EUSAGE, "stop: text %d is empty", i + 1);
        int rc = rt_check_text(o->stops[i], "stop", err);
        if (rc) return rc;
    }
    return RETRACE_OK;
}

int rt_options_check(const retrace_options *o, int vocab, retrace_error *err) {
    int rc = rt_settings_check(o, infos, err);
    if (rc == RETRACE_OK) rc = check_bias(o, vocab, err);
    return rc ? rc : check_stops(o, err);
}
