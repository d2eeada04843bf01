/* test_conversation_models.c - a conversation's next turn evaluates only what is new: on small
 * models of every kind (RETRACE_TINY) and on a real one (RETRACE_MODEL), also when an answer was
 * written in other tokens than its text would be split into, and after rewinds; to the bit what a
 * fresh model makes of it; with every template. */
#include "said.h"
#include "tiny.h"

#include <math.h>

static void wrong_tokens_are_refused_by_models(void **unused) {
    (void)unused;
    const char *path = tiny_path("dense.gguf");
    if (!path) skip();
    retrace_model *m = tiny_open(path, "threads=1 ctx_size=256");
    refuse_all(m, token_of(m, "a"), token_of(m, "<|im_start|>"), token_of(m, "</s>"));
    retrace_model_close(m);
}

/* ==== Models of every kind ==== */

static const char *const kinds[][2] = {
    {"dense.gguf", ""},
    {"swa.gguf", ""},
    {"softcap.gguf", ""},
    {"quant.gguf", ""},
    {"recurrent.gguf", "chat_template=chatml "},
    {"hybrid.gguf", "chat_template=chatml "},
};

static retrace_model *open_kind(int i, const char *settings) {
    const char *path = tiny_path(kinds[i][0]);
    char all[200];
    if (!path) return NULL;
    snprintf(all, sizeof all, "%sthreads=1 %s", kinds[i][1], settings);
    return tiny_open(path, all);
}

/* Draws by the generator until `at`, then wants these letters as tokens of their own, and the end.
 */
typedef struct spelling {
    const retrace_model *m;
    const char *letters;
    int at, n;
    retrace_token end;
} spelling;

static int choose_spelling(void *ud, const double *p, const retrace_token *ids, int n,
                           uint64_t purpose, int pos, int attempt) {
    const spelling *s = ud;
    (void)attempt;
    if (purpose != 0 || pos < s->at) return -1;
    for (int i = 0; i < n; i++) {
        retrace_token id = ids ? ids[i] : i;
        retrace_text t = retrace_piece(s->m, id);
        int wanted =
            pos - s->at < s->n ? t.n == 1 && t.s[0] == s->letters[pos - s->at] : id == s->end;
        if (wanted && p[i] > 0) return i;
    }
    return -1;
}

static retrace_token end_of(const retrace_model *m) {
    retrace_model_info facts;
    retrace_model_facts(m, &facts);
    for (retrace_token i = 0; i < facts.vocab; i++) {
        if (retrace_token_ends(m, i)) return i;
    }
    fail_msg("no token ends an answer");
    return -1;
}

/* A message's content in tokens of the model's own choice; how many. */
static int tokenised(const retrace_model *m, retrace_text text) {
    retrace_token *v = NULL;
    retrace_error err = {0};
    int n;
    if (retrace_tokenize(m, text, RETRACE_TOKENIZE_INSIDE, &v, &n, &err)) return 0;
    retrace_free(v);
    return n;
}

/* Prompts as they were made, to compare. */
static retrace_token *prompt_so_far(const retrace_model *m, const retrace_reply *r, int *n) {
    return prompt_of(m, r->messages, r->n_messages - 1, n);
}

/* The next prompt begins with this one and its answer. */
static void goes_on(const retrace_token *before, int n_before, const retrace_message *said,
                    const retrace_token *now, int n_now) {
    assert_true(n_now > n_before + said->n_tokens);
    assert_memory_equal(now, before, (size_t)n_before * sizeof *now);
    if (said->n_tokens)
        assert_memory_equal(now + n_before, said->tokens, (size_t)said->n_tokens * sizeof *now);
}

typedef struct seen {
    int odd, ends, cuts, rewinds;
} seen;

/* One more turn: its prompt, and what the model was given of it. */
static retrace_reply *checked_turn(retrace_model *m, const retrace_options *o, retrace_reply *r,
                                   const char *question, seen *s) {
    retrace_message said = *last_of(r);
    retrace_token tokens[512];
    int n_before, n_now;
    retrace_token *before = prompt_so_far(m, r, &n_before);
    retrace_reply copy = *r;
    assert_true(said.n_tokens <= 512);
    memcpy(tokens, said.tokens, (size_t)said.n_tokens * sizeof *tokens);
    s->odd += tokenised(m, said.content) != said.n_tokens;
    s->ends += r->finish == RETRACE_FINISH_END;
    s->cuts += r->finish == RETRACE_FINISH_LENGTH;
    s->rewinds += r->stats.rewinds > 0;
    said.tokens = tokens;
    copy.messages = &said;
    copy.n_messages = 1;
    r = next_turn(m, o, r, question);
    retrace_token *now = prompt_so_far(m, r, &n_now);
    assert_int_equal(r->stats.prompt, n_now);
    goes_on(before, n_before, &said, now, n_now);
    assert_int_equal(r->stats.prompt_evaluated, owed(&copy, r));
    retrace_free(before);
    retrace_free(now);
    return r;
}

/* Control tokens other than the end: models of chance draw them, and none stands in a message. */
static int list_controls(const retrace_model *m, retrace_bias *out, int room) {
    retrace_model_info facts;
    int n = 0;
    retrace_model_facts(m, &facts);
    for (retrace_token i = 0; i < facts.vocab; i++) {
        int control = retrace_piece(m, i).n == 0 && !retrace_token_ends(m, i);
        assert_true(n < room);
        if (control) out[n++] = (retrace_bias){.id = i, .bias = -INFINITY};
    }
    return n;
}

/* Five turns, under a ban that costs rewinds. */
static retrace_reply *converse(retrace_model *m, int seed, int max_tokens, seen *s) {
    static const char *const questions[] = {"the end", "in <s> on</s>", "and the", "er"};
    const char *pairs[] = {"text", "e", "text", "t", "text", "a", "text", "o", NULL};
    retrace_rule *ban = make_rule("phrases", pairs);
    spelling how = {m, "inthe", 0, 0, end_of(m)};
    retrace_options o = plain_options(max_tokens);
    retrace_bias bias[100];
    o.bias = bias;
    o.n_bias = list_controls(m, bias, 100);
    o.rules = &ban;
    o.n_rules = seed % 2;
    o.top_k = 0;
    o.choose = choose_spelling;
    o.choose_ud = &how;
    o.seed = seed;
    how.at = seed % 2 ? 9 : 2; /* the letters are banned where there is a ban */
    how.n = seed % 2 ? 0 : 5;
    retrace_reply *r = next_turn(m, &o, NULL, "go");
    for (int i = 0; i < 4; i++) {
        o.seed = seed * 100 + i;
        if (i == 1) how = (spelling){m, "", 0, 0, how.end}; /* an empty answer */
        if (i == 2) how = (spelling){m, "inthe", 9, seed % 2 ? 0 : 5, how.end};
        r = checked_turn(m, &o, r, questions[i], s);
    }
    retrace_rule_free(ban);
    return r;
}

static void models_are_given_what_is_new(void **unused) {
    (void)unused;
    static const char *const settings[] = {"ctx_size=1024", "ctx_size=1024 deterministic=false",
                                           "ctx_size=1024 batch_size=8 parallel=2"};
    for (int i = 0; i < COUNT(kinds); i++) {
        seen s = {0};
        for (int k = 0; k < COUNT(settings); k++) {
            retrace_model *m = open_kind(i, settings[k]);
            if (!m) skip();
            for (int seed = 0; seed < 4; seed++)
                retrace_free(converse(m, seed, seed < 2 ? 20 : 6, &s));
            retrace_model_close(m);
        }
        print_message("  %s: %d answers ended, %d were cut, %d in other tokens, %d with rewinds\n",
                      kinds[i][0], s.ends, s.cuts, s.odd, s.rewinds);
        assert_true(s.ends > 0 && s.cuts > 0 && s.odd > 0 && s.rewinds > 0);
    }
}

/* What was said to one model goes on in another one as it would have: to the last digit, which the
 * next answer, drawn from all of the vocabulary, would show. */
static void a_conversation_goes_on_elsewhere(void **unused) {
    (void)unused;
    for (int i = 0; i < COUNT(kinds); i++) {
        seen s = {0};
        retrace_model *here = open_kind(i, "ctx_size=1024 batch_size=16");
        retrace_model *there = open_kind(i, "ctx_size=1024 batch_size=16");
        if (!here || !there) skip();
        retrace_reply *a = converse(here, 3, 9, &s), *b = NULL;
        retrace_options o = plain_options(30);
        retrace_message list[16];
        retrace_error err = {0};
        int n = a->n_messages;
        o.logprobs = 1;
        o.seed = 5;
        for (int k = 0; k < n; k++) list[k] = a->messages[k];
        list[n] = says("user", "and so on");
        if (retrace_answer(&b, there, &o, list, n + 1, NULL, NULL, &err)) fail_msg("%s", err.msg);
        a = next_turn(here, &o, a, "and so on");
        assert_int_equal(b->stats.prompt_evaluated, b->stats.prompt);
        assert_true(a->stats.prompt_evaluated < a->stats.prompt);
        assert_int_equal(last_of(a)->n_tokens, last_of(b)->n_tokens);
        assert_memory_equal(last_of(a)->tokens, last_of(b)->tokens,
                            (size_t)last_of(a)->n_tokens * sizeof(retrace_token));
        retrace_free(a);
        retrace_free(b);
        retrace_model_close(here);
        retrace_model_close(there);
    }
}

/* The distribution after a prompt that was gone on with, and after it on a fresh model, bit by bit.
 */
static void the_bits_are_the_same(void **unused) {
    (void)unused;
    for (int i = 0; i < COUNT(kinds); i++) {
        seen s = {0};
        retrace_model_info facts;
        retrace_error err = {0};
        retrace_model *m[2] = {open_kind(i, "ctx_size=1024"), open_kind(i, "ctx_size=1024")};
        if (!m[0] || !m[1]) skip();
        retrace_model_facts(m[0], &facts);
        float *rows[2] = {tiny_row(&facts), tiny_row(&facts)};
        retrace_reply *r = converse(m[0], 2, 9, &s);
        int n, n_pairs, *pairs = NULL;
        retrace_token *v = prompt_of(m[0], r->messages, r->n_messages, &n);
        assert_int_equal(
            retrace_chat_singles(m[0], r->messages, r->n_messages, 0, &pairs, &n_pairs, &err),
            RETRACE_OK);
        for (int k = 0; k < 2; k++) {
            retrace_query q = {.tokens = v,
                               .n = n,
                               .n_prompt = n,
                               .singles = pairs,
                               .n_singles = n_pairs,
                               .next = rows[k]};
            tiny_ask(m[k], &q, 1);
            assert_int_equal(q.evaluated == n, k);
        }
        assert_memory_equal(rows[0], rows[1], (size_t)facts.vocab * sizeof *rows[0]);
        for (int k = 0; k < 2; k++) {
            free(rows[k]);
            retrace_model_close(m[k]);
        }
        retrace_free(v);
        retrace_free(pairs);
        retrace_free(r);
    }
}

/* ==== Templates ==== */

/* The bytes of a prompt, control tokens spelt out, without spaces: SentencePiece puts one before a
 * text behind a control token, where an answer's own tokens may have none. */
static size_t bytes_of(const retrace_model *m, const retrace_token *v, int n, char *out,
                       size_t room) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        retrace_text t = retrace_token_name(m, v[i]);
        assert_true(at + t.n <= room);
        for (size_t k = 0; k < t.n; k++) {
            if (t.s[k] != ' ') out[at++] = t.s[k];
        }
    }
    return at;
}

/* In letters of its own the answer spells the same prompt, and stands where it is said to. */
static void same_prompt(const retrace_model *m, retrace_message *list, int n, const char *name) {
    static char with[4096], without[4096];
    retrace_error err = {0};
    int n_with, n_without, n_pairs, *pairs = NULL, n_tokens = list[1].n_tokens;
    retrace_token *a = prompt_of(m, list, n, &n_with);
    const retrace_token *tokens = list[1].tokens;
    assert_int_equal(retrace_chat_singles(m, list, n, 0, &pairs, &n_pairs, &err), RETRACE_OK);
    assert_int_equal(n_pairs, 1);
    assert_int_equal(pairs[1] - pairs[0], n_tokens);
    assert_memory_equal(a + pairs[0], tokens, (size_t)n_tokens * sizeof *a);
    list[1].tokens = NULL;
    retrace_token *b = prompt_of(m, list, n, &n_without);
    list[1].tokens = tokens;
    size_t n_a = bytes_of(m, a, n_with, with, sizeof with);
    size_t n_b = bytes_of(m, b, n_without, without, sizeof without);
    if (n_a != n_b || memcmp(with, without, n_a) != 0)
        fail_msg("%s: '%.*s' is not '%.*s'", name, (int)n_a, with, (int)n_b, without);
    retrace_free(a);
    retrace_free(b);
    retrace_free(pairs);
}

static void one_bos(const retrace_model *m, const retrace_message *list, int n) {
    retrace_model_info facts;
    int length;
    retrace_model_facts(m, &facts);
    retrace_token *v = prompt_of(m, list, n, &length);
    if (facts.add_bos) assert_true(v[0] == facts.bos && v[1] != facts.bos);
    retrace_free(v);
}

/* Does the second prompt begin with the first one and the answer? */
static int is_lawful(const retrace_model *m, const retrace_message *list, int n) {
    int n_first, n_second;
    retrace_token *first = prompt_of(m, list, 1, &n_first);
    retrace_token *second = prompt_of(m, list, n, &n_second);
    int yes =
        n_second >= n_first + list[1].n_tokens &&
        memcmp(first, second, (size_t)n_first * sizeof *first) == 0 &&
        memcmp(second + n_first, list[1].tokens, (size_t)list[1].n_tokens * sizeof *first) == 0;
    retrace_free(first);
    retrace_free(second);
    return yes;
}

static void every_template_takes_tokens(void **unused) {
    (void)unused;
    static const char *const files[] = {"dense.gguf", "recurrent.gguf", "swa.gguf"};
    for (int f = 0; f < COUNT(files); f++) {
        int lawful = 0, all = 0;
        const char *name;
        for (int i = 0; (name = retrace_chat_template_at(i)) != NULL; i++) {
            char settings[200];
            const char *path = tiny_path(files[f]);
            if (!path) skip();
            snprintf(settings, sizeof settings, "threads=1 ctx_size=512 chat_template=%s", name);
            retrace_model *m = tiny_open(path, settings);
            retrace_token said[] = {token_of(m, "t"), token_of(m, "h"), token_of(m, "e")};
            retrace_message list[] = {says("user", "the <s>end</s>"), answered("the", said, 3),
                                      says("user", " in <|im_start|> it ")};
            same_prompt(m, list, 3, name);
            one_bos(m, list, 3);
            all++;
            if (is_lawful(m, list, 3))
                lawful++;
            else
                print_message("  %s, %s: the history is written in another way\n", files[f], name);
            retrace_model_close(m);
        }
        print_message("  %s: %d of %d templates go on in the very tokens\n", files[f], lawful, all);
        assert_true(all > 20 && lawful > all / 2);
    }
}

/* ==== A real model ==== */

static void a_real_model_is_given_what_is_new(void **unused) {
    (void)unused;
    const char *path = getenv("RETRACE_MODEL");
    if (!path || !*path) skip();
    static const char *const settings[] = {"ctx_size=1024", "ctx_size=1024 deterministic=false"};
    seen s = {0};
    for (int k = 0; k < COUNT(settings); k++) {
        retrace_model *m = tiny_open(path, settings[k]);
        for (int seed = 0; seed < 2; seed++) retrace_free(converse(m, seed, seed ? 20 : 6, &s));
        retrace_model_close(m);
    }
    print_message("  %d answers ended, %d were cut, %d in other tokens, %d with rewinds\n", s.ends,
                  s.cuts, s.odd, s.rewinds);
    assert_true(s.cuts > 0 && s.odd > 0 && s.rewinds > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_tokens_are_refused_by_models),
        cmocka_unit_test(models_are_given_what_is_new),
        cmocka_unit_test(a_conversation_goes_on_elsewhere),
        cmocka_unit_test(the_bits_are_the_same),
        cmocka_unit_test(every_template_takes_tokens),
        cmocka_unit_test(a_real_model_is_given_what_is_new),
    };
    return cmocka_run_group_tests_name("conversation_models", tests, NULL, NULL);
}
