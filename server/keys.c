/* keys.c - who may ask: API keys, compared by their digests.
 *
 * Keys are kept and compared as SHA-256 digests, every one of them in full, so that the time of an
 * answer tells nothing about how much of a key was right. SHA-256 is the standard's (FIPS 180-4).
 */
#include "server.h"

#include <string.h>
#include <strings.h>

/* ==== SHA-256 ==== */

static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static void expand(uint32_t w[64], const unsigned char *block) {
    for (int i = 0; i < 16; i++, block += 4)
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 |
               block[3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
}

static void mix(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64], v[8];
    expand(w, block);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t one = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
                       ((e & v[5]) ^ (~e & v[6])) + rounds[i] + w[i];
        uint32_t two =
            (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

void srv_digest(const void *data, size_t n, unsigned char out[SRV_DIGEST]) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char *p = data;
    unsigned char tail[128] = {0};
    size_t left = n;
    for (; left >= 64; left -= 64, p += 64) mix(state, p);
    size_t end = left + 9 > 64 ? 128 : 64;
    if (left) memcpy(tail, p, left);
    tail[left] = 0x80;
    for (int i = 0; i < 8; i++)
        tail[end - 1 - (size_t)i] = (unsigned char)((uint64_t)n * 8 >> 8 * i);
    for (size_t i = 0; i < end; i += 64) mix(state, tail + i);
    for (int i = 0; i < SRV_DIGEST; i++)
        out[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}

/* ==== Keys ==== */

/* 1 when the digest is a key's. Looks at every byte of every key. */
static int is_key(const srv_config *c, const unsigned char digest[SRV_DIGEST]) {
    unsigned found = 0;
    for (int i = 0; i < c->n_keys; i++) {
        unsigned differs = 0;
        for (int k = 0; k < SRV_DIGEST; k++) differs |= (unsigned)(c->keys[i][k] ^ digest[k]);
        found |= (differs - 1) >> 31;
    }
    return (int)found;
}

/* The key in "Bearer KEY"; NULL: it has another form. */
static const char *bearer(const char *authorization) {
    if (strncasecmp(authorization, "Bearer ", 7) != 0) return NULL;
    return authorization + 7 + strspn(authorization + 7, " ");
}

int srv_key_check(const srv_config *c, const char *authorization, const char *x_api_key,
                  unsigned char digest[SRV_DIGEST], srv_error *e) {
    memset(digest, 0, SRV_DIGEST);
    if (c->n_keys == 0) return 0;
    const char *key = authorization ? bearer(authorization) : x_api_key;
    if (!authorization && !x_api_key)
        return srv_fail(e, 401, "missing_api_key", NULL,
                        "an API key is needed: 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'");
    if (!key) return srv_fail(e, 401, "invalid_api_key", NULL, "Authorization is not 'Bearer KEY'");
    size_t n = strlen(key);
    while (n > 0 && (key[n - 1] == ' ' || key[n - 1] == '\t')) n--; /* they are not the value's */
    srv_digest(key, n, digest);
    if (is_key(c, digest)) return 0;
    memset(digest, 0, SRV_DIGEST);
    return srv_fail(e, 401, "invalid_api_key", NULL, "the API key is not one of this server's");
}
