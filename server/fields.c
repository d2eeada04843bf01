/* fields.c - the tables of all fields.
 *
 * A row makes the check, the line in docs/http.md and the property in the OpenAPI document. Ranges
 * of settings are those of the library's own table; limits of lists and texts are the server's. */
#include "read.h"

#define NAMES "max_completion_tokens|n_predict|max_new_tokens|max_length|num_predict"

/* What all of the text endpoints share. */
const srv_field srv_fields_common[] = {
    {"model", "string", "the server's", 0, 256, 0,
     "told back in the answer; there is one model, so it chooses nothing", NULL},
    {"stream", "bool", "false", 0, 0, 0, "the answer as server-sent events, while it is written",
     NULL},
    {"stream_options", "object", NULL, 0, 0, 0,
     "{\"include_usage\": true}: one more chunk with the usage before [DONE]", NULL},
    {"n", "int", "1", 1, SRV_MAX_CHOICES, 0,
     "choices of each prompt; n times the number of prompts is at most 64", "n_cmpl"},
    {"max_tokens", "int", "1024; 16 in /v1/completions", -1, 1e9, 0,
     "tokens of a choice at most; -1: until the context is full", NAMES},
    {"seed", "int", "drawn", -1, (double)INT64_MAX, 0,
     "of all chance; -1: drawn. Either way retrace.seed in the answer tells it", "sampler_seed"},
    {"temperature", "number", "1", 0, 1000, 0, "0: always the most probable token", "temp"},
    {"top_k", "int", "0", -1, 1e9, 0, "keep the k most probable tokens; 0 or -1: all", NULL},
    {"top_p", "number", "1", 0, 1, 0, "keep the most probable tokens that together reach p", NULL},
    {"min_p", "number", "0", 0, 1, 0, "keep tokens at least p times as probable as the best", NULL},
    {"typical_p", "number", "1", 0, 1, 0,
     "keep the tokens whose surprise is nearest to the entropy, up to mass p", "typical"},
    {"repeat_penalty", "number", "1", 0, 100, 0,
     "divides the logits of recent tokens; 1 or 0: off; else at least 0.01",
     "repetition_penalty|rep_pen"},
    {"repeat_last_n", "int", "64", -1, 1e9, 0,
     "tokens that repeat_penalty looks back; -1: all; 0: none", "rep_pen_range|penalty_range"},
    {"presence_penalty", "number", "0", -100, 100, 0,
     "taken from the logits of tokens that the answer holds", NULL},
    {"frequency_penalty", "number", "0", -100, 100, 0,
     "taken from a token's logit once per time the answer holds it", NULL},
    {"stop", "strings", NULL, 1, SRV_MAX_STOP, SRV_MAX_STOPS,
     "texts that end the answer and are not part of it", "stop_sequence|stopping_strings"},
    {"logit_bias", "bias", NULL, -100, 100, SRV_MAX_BIAS,
     "added to logits: {\"id or text\": x}, [[id or text, x], ...] or [{\"id\", \"bias\"}, ...]; "
     "false, and -100 or less, ban the token; a text stands for each of its tokens",
     NULL},
    {"ignore_eos", "bool", "false", 0, 0, 0, "the answer does not end by an end token",
     "ban_eos_token"},
    {"return_token_ids", "bool", "false", 0, 0, 0, "the ids of the tokens are in the answer too",
     "return_tokens"},
    {"deterministic", "bool", "false", 0, 0, 0,
     "evaluated alone, in fixed batches: the answer depends on nothing that other clients do",
     NULL},
    {"retrace", "object", NULL, 0, 0, 0,
     "{\"events\": true}: the operations of the run are told, see Events", NULL},
    {0},
};

/* Rules, bans and constraints: everything that takes text back or keeps it from being written. */
const srv_field srv_fields_rules[] = {
    {"rules", "rules", NULL, 0, 0, SRV_MAX_RULES,
     "[{\"name\", settings...}]: any rule of GET /v1/rules but its settings of type file; a "
     "setting of type list names a ban list of the server",
     NULL},
    {"banned_strings", "strings", NULL, 1, SRV_MAX_PHRASE, SRV_MAX_PHRASES,
     "the answer contains none of these, whatever their case and whatever tokens spell them; all "
     "phrases of a request together have at most 1048576 bytes",
     NULL},
    {"banned_tokens", "bans", NULL, 0, 0, SRV_MAX_TOKEN_BANS,
     "each element by its type: a text is banned like banned_strings, a number is a token id; as "
     "one text: ids, \"1,2,3\"",
     NULL},
    {"custom_token_bans", "ids", NULL, 0, 0, SRV_MAX_TOKEN_BANS,
     "token ids that are never drawn: \"1,2,3\" or a list", NULL},
    {"bad_words", "strings", NULL, 1, SRV_MAX_PHRASE, SRV_MAX_PHRASES, "the same as banned_strings",
     NULL},
    {"banned_regex", "strings", NULL, 1, SRV_MAX_PATTERN, SRV_MAX_PATTERNS,
     "the answer matches none of these regular expressions", NULL},
    {"banned_regex_case_insensitive", "strings", NULL, 1, SRV_MAX_PATTERN, SRV_MAX_PATTERNS,
     "the same, capitals and small letters being equal", NULL},
    {"ban_lists", "strings", NULL, 1, 256, SRV_MAX_LISTS,
     "names of the server's lists (--ban-list): their phrases are banned too", NULL},
    {"bans_enabled", "bool", "true", 0, 0, 0,
     "false: the fields above but `rules` are checked and not used", NULL},
    {"grammar", "string", NULL, 0, SRV_MAX_GRAMMAR, 0, "the answer is a text of this GBNF grammar",
     "grammar_string"},
    {"json_schema", "schema", NULL, 0, SRV_MAX_GRAMMAR, 0,
     "the answer is JSON that follows this schema: an object, or its text", NULL},
    {"response_format", "object", NULL, 0, 0, 0,
     "{\"type\": \"text\"}, {\"type\": \"json_object\"} or {\"type\": \"json_schema\", "
     "\"json_schema\": {\"schema\": {...}}}; the schema may stand beside either type as well, "
     "\"schema\": {...}",
     NULL},
    {"hold", "string", "all; minimal when streamed", 0, 0, 0,
     "minimal|all: let text out as soon as nothing can erase it, or all of it at the end", NULL},
    {"resample", "string", "local", 0, 0, 0,
     "local|exact: after a rejection, draw again where it began, or so that the model's own law "
     "is kept (exact holds all text)",
     NULL},
    {"on_stuck", "string", "fail", 0, 0, 0,
     "fail|stop|allow: when every way on is banned, give up, return what stood there, or let one "
     "hit through",
     NULL},
    {"stuck_mass", "number", "0.001", 0, 1, 0,
     "a place is exhausted when less of the model's probability than this is left unbanned", NULL},
    {"max_rewinds", "int", "-1", -1, 1e15, 0, "of a choice; -1: 4 max_tokens + 1024", NULL},
    {"max_evaluated", "int", "-1", -1, 1e15, 0,
     "token rows given to the model for a choice; -1: 16 max_tokens + 1024", NULL},
    {"driver", "string", "sample", 0, 0, 0,
     "sample; the other driver, guide, asks a person and is not offered over HTTP", NULL},
    {"dry_multiplier", "number", "0", 0, 1000, 0, "above 0: the rule dry with this multiplier",
     NULL},
    {"dry_base", "number", "1.75", 1, 100, 0, "its base", NULL},
    {"dry_allowed_length", "int", "2", 1, 1e9, 0, "its allowed_length", NULL},
    {"dry_penalty_last_n", "int", "0", -1, 1e9, 0, "its last; 0 or -1: looks at all tokens",
     "dry_range"},
    {"dry_sequence_breakers", "breakers", "newline : \" *", 0, 64, 64,
     "its breakers: a list of texts, or that list as JSON in a text", NULL},
    {0},
};

const srv_field srv_fields_completions[] = {
    {"prompt", "prompt", "required", 0, 0, SRV_MAX_PROMPTS,
     "a text, several texts, the ids of one prompt, or of several. A text begins with the model's "
     "BOS, never twice, and text that spells a control token becomes it; ids stand as they are",
     NULL},
    {"echo", "bool", "false", 0, 0, 0,
     "the prompt stands in the answer; with logprobs its own are there too", NULL},
    {"logprobs", "int or bool", NULL, 0, SRV_MAX_TOP, 0,
     "log-probabilities of the kept tokens and of so many beside each; true means 5, false none",
     NULL},
    {"best_of", "int", "1", 1, SRV_MAX_CHOICES, 0, "1 or the same as n", NULL},
    {"suffix", "string", NULL, 0, 0, 0, "must be null or empty: text is not filled in", NULL},
    {0},
};

const srv_field srv_fields_chat[] = {
    {"messages", "messages", "required", 0, 0, SRV_MAX_MESSAGES,
     "[{\"role\": \"system\" (or developer), \"user\", \"assistant\", \"content\": a text or "
     "[{\"type\": \"text\", \"text\"}]}]. A last message of the assistant's is the beginning of "
     "the answer, which goes on from it",
     NULL},
    {"logprobs", "bool", "false", 0, 0, 0, "log-probabilities of the kept tokens", NULL},
    {"top_logprobs", "int", "0", 0, SRV_MAX_TOP, 0, "and of so many beside each; needs logprobs",
     NULL},
    {"continue_final_message", "bool", NULL, 0, 0, 0,
     "false: a last message of the assistant's is complete, and a new one is written; true: there "
     "must be one to go on from",
     NULL},
    {"add_generation_prompt", "bool", "true", 0, 0, 0,
     "false only where the answer goes on from a last message", NULL},
    {"tools", "list", NULL, 0, 0, 0, "must be empty: tools are not offered", "functions"},
    {"tool_choice", "any", "none", 0, 0, 0, "\"none\" or \"auto\"", "function_call"},
    {"chat_template_kwargs", "object", NULL, 0, 0, 0,
     "ignored; may hold texts, numbers, true, false and null", NULL},
    {"chat_template", "string", NULL, 0, 0, 0,
     "must be empty: the template is the model's, never a request's", NULL},
    {0},
};

const srv_field srv_fields_llama[] = {
    {"prompt", "prompt", "required", 0, 0, SRV_MAX_PROMPTS,
     "a text; a list in which a token id stands is one prompt, its ids and texts joined; any other "
     "list has several prompts, each a text or such a list",
     NULL},
    {"n_probs", "int", "0", 0, SRV_MAX_TOP, 0,
     "log-probabilities of the kept tokens and of so many beside each; 0: none", "logprobs"},
    {0},
};

const srv_field srv_fields_rewind[] = {
    {"id", "string", "required", 1, 64, 0, "of a completion that has ended or was left", NULL},
    {"choice", "int", "0", 0, SRV_MAX_SEQUENCES - 1, 0, "the index of the choice in it", NULL},
    {"keep", "int", "required", 0, 1e9, 0, "tokens of its answer that stay", NULL},
    {"token", "any", NULL, 0, 0, 0,
     "put behind them, however improbable: an id, or a text that is one token", NULL},
    {"text", "string", NULL, 0, SRV_MAX_GRAMMAR, 0, "or this text, of any number of tokens", NULL},
    {"max_tokens", "int", "as first asked for", -1, 1e9, 0, "tokens behind the kept ones at most",
     NAMES},
    {"stream", "bool", "false", 0, 0, 0, "as in the first request", NULL},
    {"stream_options", "object", NULL, 0, 0, 0, "as in the first request", NULL},
    {"retrace", "object", NULL, 0, 0, 0, "as in the first request", NULL},
    {0},
};

const srv_field srv_fields_backward[] = {
    {"suffix", "string", "required", 1, 1 << 20, 0, "what the texts end in", NULL},
    {"num_samples", "int", "1", 1, 64, 0, "texts to write", "n"},
    {"max_tokens", "int", "10", 0, 1024, 0, "tokens to put before the suffix at most", NULL},
    {"seed", "int", "drawn", -1, (double)INT64_MAX, 0, "of all chance; -1: drawn", NULL},
    {"temperature", "number", "1", 0, 1000, 0,
     "of the posterior; 0: always the most probable token", "temp"},
    {"top_p", "number", "1", 0, 1, 0,
     "draw from the most probable tokens that together reach p; 1: all", NULL},
    {"mode", "string", "priority", 0, 0, 0,
     "priority|exact|exhaustive|topk|compat: which candidates are evaluated; priority: a budget "
     "of them, exact: as many as an exact draw needs, exhaustive: all, topk: the likeliest by the "
     "table, compat: in the original's order, for comparison",
     NULL},
    {"heuristic", "string", "mixed", 0, 0, 0,
     "mixed|bigram|forward-prompt|reversed: what candidates are proposed by: the table alone "
     "(bigram), with one of two questions to the model, or with both; it changes the accuracy, "
     "not what is sampled",
     NULL},
    {"budget", "int", "0", 0, 1e9, 0, "candidates evaluated in a step; 0: 512, in mode compat all",
     NULL},
    {"threshold", "number", "0", 0, 1, 0,
     "evaluate enough candidates for this share of all probability, instead of a budget", NULL},
    {"batch_size", "int", "256", 1, 1 << 16, 0, "candidates handed to the model at once", NULL},
    {"top", "int", "10", 0, 1000, 0, "candidates listed with each step", NULL},
    {"start", "bool", "true", 0, 0, 0, "the text may begin: the document start is a candidate",
     NULL},
    {"stream", "bool", "false", 0, 0, 0, "one event for each step", NULL},
    {0},
};

const srv_field srv_fields_tokenize[] = {
    {"content", "string", NULL, 0, 0, 0, "the text", "prompt"},
    {"messages", "messages", NULL, 0, 0, SRV_MAX_MESSAGES,
     "or a chat, by the model's template; one of content and messages is needed", NULL},
    {"add_special", "bool", "false for content, true for prompt", 0, 0, 0,
     "begin with the model's BOS", "add_special_tokens"},
    {"parse_special", "bool", "true", 0, 0, 0, "text that spells a control token becomes it", NULL},
    {"with_pieces", "bool", "false", 0, 0, 0,
     "tokens as {\"id\", \"piece\"}; bytes that are not whole characters are a list of numbers",
     NULL},
    {"return_token_strs", "bool", "false", 0, 0, 0, "the tokens' texts too, as token_strs", NULL},
    {0},
};

const srv_field srv_fields_detokenize[] = {
    {"tokens", "ids", "required", 0, 0, 0, "token ids", NULL},
    {0},
};

const srv_field srv_fields_template[] = {
    {"messages", "messages", "required", 0, 0, SRV_MAX_MESSAGES, "as in /v1/chat/completions",
     NULL},
    {"continue_final_message", "bool", NULL, 0, 0, 0, "as in /v1/chat/completions", NULL},
    {"add_generation_prompt", "bool", "true", 0, 0, 0, "as in /v1/chat/completions", NULL},
    {0},
};
