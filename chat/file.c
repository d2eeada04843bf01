/* file.c - /save: the conversation as JSON, replacing a file as a whole.
 *
 * It is written under another name beside the file, brought to the disk and renamed: whoever reads
 * the file sees the old one or the new one. It is for its owner only, as the history is. */
#define _POSIX_C_SOURCE 200809L
#include "chat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *message_of(const chat_turn *u) {
    json_t *m = json_object();
    json_object_set_new(m, "role", json_string(u->role));
    json_object_set_new(m, "content", cli_json_text(cli_buf_text(&u->content)));
    if (u->ids) json_object_set_new(m, "tokens", cli_json_ints(u->ids, u->n_ids));
    if (u->finish) json_object_set_new(m, "finish", json_string(retrace_finish_name(u->finish)));
    return m;
}

static json_t *talk_of(const chat_talk *t) {
    retrace_model_info info;
    char hash[20];
    json_t *o = json_object(), *messages = json_array();
    retrace_model_facts(t->model, &info);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)info.vocab_hash);
    json_object_set_new(o, "retrace", json_string("chat"));
    json_object_set_new(o, "version", json_integer(1));
    json_object_set_new(o, "model", cli_json_text((retrace_text){t->uri, strlen(t->uri)}));
    json_object_set_new(o, "vocab_hash", json_string(hash));
    json_object_set(o, "seed", json_object_get(t->plan->json, "seed"));
    json_object_set(o, "settings", chat_plan_settings(t));
    if (t->left_out) json_object_set_new(o, "left_out", json_integer(t->left_out));
    for (int i = 0; i < t->n; i++) json_array_append_new(messages, message_of(&t->v[i]));
    json_object_set_new(o, "messages", messages);
    return o;
}

static int cannot(const char *path, int number) {
    return cli_fail(CLI_IO, "/save: '%s': %s", path, strerror(number));
}

static int replace(const char *path, const char *s, size_t n) {
    cli_buf other = {0};
    cli_printf(&other, "%s.XXXXXX", path);
    int fd = mkstemp(other.s), number = fd < 0 ? errno : cli_write_all(fd, s, n);
    if (fd >= 0 && !number && fsync(fd)) number = errno;
    if (fd >= 0 && close(fd) && !number) number = errno;
    if (fd >= 0 && !number && rename(other.s, path)) number = errno;
    if (fd >= 0 && number) unlink(other.s);
    cli_buf_free(&other);
    return number ? cannot(path, number) : CLI_OK;
}

int chat_file_save(const chat_talk *t, const char *path) {
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return cli_fail(CLI_IO, "/save: '%s' is not a plain file", path);
    json_t *o = talk_of(t);
    char *s = json_dumps(o, JSON_INDENT(1));
    json_decref(o);
    size_t n = strlen(s);
    s[n] = '\n'; /* in place of its NUL */
    int code = replace(path, s, n + 1);
    free(s);
    return code;
}
