/* The loops over the values of rows that NumPy would need many small calls or large arrays for.

   The same bits from every compiler and on every processor: sums are taken in lanes that are written out, and
   nothing may be contracted or reordered (-ffp-contract=off, never -ffast-math). `self_test` checks a build. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define UNROLL _Pragma("GCC unroll 16")
#define LANES 32     /* of sums in double precision */
#define GAP_ROWS 256 /* whose gaps have a sum of their own */

typedef int64_t i64;

static inline double add_lanes(double *lane) {
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++) lane[j] += lane[half + j];
    return lane[0];
}

/* Return the sum of TERM over i < n: 32 sums side by side, which are then added in halves. */
#define LANE_SUM(n, TERM)                                                                                      \
    double lane[LANES] = {0};                                                                                  \
    i64 whole = (n) - (n) % LANES;                                                                             \
    for (i64 first = 0; first < whole; first += LANES)                                                         \
        for (int j = 0; j < LANES; j++) {                                                                      \
            i64 i = first + j;                                                                                 \
            lane[j] += TERM;                                                                                   \
        }                                                                                                      \
    for (i64 i = whole; i < (n); i++) lane[i - whole] += TERM;                                                 \
    return add_lanes(lane);

static inline double square_length(const double *x, i64 d) {
    LANE_SUM(d, x[i] * x[i])
}

/* What the loops are tested on, and a hash of what they filled in. */
enum { ROWS = 37, WIDTH = 75, LINE = 80, GROUPS = 3, PICKS = 9 };
struct made {
    uint64_t hash, state, keys[WIDTH];
    double points[GROUPS * WIDTH], shares[ROWS];
    i64 codes[ROWS], numbers[ROWS];
};

static void add_to_hash(struct made *made, const void *values, size_t size) {
    for (size_t i = 0; i < size; i++) made->hash = (made->hash ^ ((const uint8_t *)values)[i]) * 0x100000001b3u;
}

static double draw(struct made *made) {
    made->state = made->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(i64)(made->state >> 11) * 0x1p-52 - 1.0;
}

/* For e^x: bits behind the point, 1.5 * 2^DIGITS beside the exponent of one, terms of the series, and the
   logarithm of two as a sum of two numbers, of which the first has few digits. */
static const double factorials[] = {1,     1,      2,       6,        24,        120,       720,
                                    5040, 40320, 362880, 3628800, 39916800, 479001600, 6227020800};

#define X double
#define INTEGER int64_t
#define N(name) f64_##name
#define DIGITS 52
#define WHOLE (0x1.8p52 + 1023)
#define TERMS 13
#define LEAST -700
#define LN2 0x1.62e42feep-1
#define LN2_REST 0x1.a39ef35793c76p-33
#include "rows.h"
#undef X
#undef INTEGER
#undef N
#undef DIGITS
#undef WHOLE
#undef TERMS
#undef LEAST
#undef LN2
#undef LN2_REST
#define X float
#define INTEGER int32_t
#define N(name) f32_##name
#define DIGITS 23
#define WHOLE (0x1.8p23 + 127)
#define TERMS 7
#define LEAST -80
#define LN2 0x1.63p-1
#define LN2_REST -0x1.bd0106p-13
#include "rows.h"
#undef X
#undef INTEGER
#undef N

/* Fill in the cosines of each row's angles, then the sines, times a factor.

   By Taylor's series, after whole quarter turns are taken off: the same bits on every machine, and several times
   as fast as the functions of the system. */
EXPORT void cosines_and_sines(const double *angles, double factor, double *found, i64 n, i64 h, i64 w) {
    static const double sine_terms[] = {1.0 / 355687428096000, 1.0 / 1307674368000, 1.0 / 6227020800, 1.0 / 39916800,
                                        1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6};
    static const double cosine_terms[] = {1.0 / 20922789888000, 1.0 / 87178291200, 1.0 / 479001600, 1.0 / 3628800,
                                          1.0 / 40320, 1.0 / 720, 1.0 / 24, 1.0 / 2};
    const double most = 1e6; /* rows so far off are like no other row, whatever their angles */
    for (i64 row = 0; row < n; row++) {
        const double *x = angles + row * h;
        double *restrict cosines = found + row * w, *restrict sines = cosines + h;
        for (i64 i = 0; i < h; i++) {
            double angle = -most > x[i] ? -most : x[i];
            angle = most < angle ? most : angle;
            double turns = rint(angle * 0.6366197723675814); /* quarter turns */
            /* The quarter turn is a sum of two numbers, of which the first has few digits. */
            double r = (angle - turns * 1.5707963267341256) - turns * 6.077100506506192e-11, z = r * r;
            double sine = sine_terms[0], cosine = cosine_terms[0];
            for (int k = 1; k < 8; k++) {
                sine = sine_terms[k] - z * sine;
                cosine = cosine_terms[k] - z * cosine;
            }
            sine = r - r * (z * sine);
            cosine = 1.0 - z * cosine;
            double quarter = turns - 4.0 * floor(turns * 0.25);
            int odd = (quarter == 1.0) | (quarter == 3.0);
            double one = odd ? sine : cosine, other = odd ? cosine : sine;
            cosines[i] = (((quarter == 1.0) | (quarter == 2.0)) ? -one : one) * factor;
            sines[i] = (quarter >= 2.0 ? -other : other) * factor;
        }
    }
}

/* The digest of the files that this was built from. */
EXPORT const char *source(void) { return SOURCE; }

/* Return which builds this processor runs: that for every processor (0), for AVX2 too (1), for AVX-512 too (2). */
#if defined(__x86_64__)
#include <cpuid.h>
EXPORT int level(void) {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & 0x18000000u) != 0x18000000u) return 0; /* AVX, and XGETBV works */
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & 0x20)) return 0;
    return (low & 0xe6) == 0xe6 && (b & 0xc0030000u) == 0xc0030000u ? 2 : 1; /* F, DQ, BW and VL */
}
#else
EXPORT int level(void) { return 0; }
#endif

/* Return 1 where every loop fills in what it should for made-up numbers, bit for bit. */
EXPORT int self_test(void) {
    struct made made = {.hash = 0xcbf29ce484222325u, .state = 1};
    for (int i = 0; i < GROUPS * WIDTH; i++) made.points[i] = draw(&made);
    for (int i = 0; i < WIDTH; i++) made.keys[i] = (uint64_t)(i64)(draw(&made) * 0x1p60);
    for (int i = 0; i < ROWS; i++) {
        made.codes[i] = i % (GROUPS + 1) - 1;
        made.numbers[i] = i * 7 % ROWS;
        made.shares[i] = 0.5 + 0.5 * draw(&made);
    }
    f64_test(&made);
    f32_test(&made);
    double found[2 * GROUPS * WIDTH];
    cosines_and_sines(made.points, 0.5, found, 1, GROUPS * WIDTH, 2 * GROUPS * WIDTH);
    add_to_hash(&made, found, sizeof found);
    return made.hash == 0xd0ec22288c26377fu;
}
