/* The loops over rows of type X, float or double; included once for each by loops.c.

   Arrays are in C order, and arguments come as in the table of __init__.py: the arrays and numbers of a loop,
   then the sizes of its arrays. An array that is not given is NULL. Nothing is allocated here. */

typedef X N(vector) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(X)), may_alias));
typedef INTEGER N(mask) __attribute__((vector_size(VECTOR_BYTES)));
enum { N(width) = VECTOR_BYTES / sizeof(X), N(vectors) = 64 / VECTOR_BYTES, N(lanes) = 64 / sizeof(X), N(two) = 16 / sizeof(X) };

/* Return the sum of lanes of 64 bytes, which are added in halves. */
static inline X N(add_lanes)(N(vector) *sum) {
    typedef X half __attribute__((vector_size(16)));
    half parts[VECTOR_BYTES / 16];
    for (int apart = N(vectors) / 2; apart; apart /= 2)
        for (int v = 0; v < apart; v++) sum[v] += sum[apart + v];
    memcpy(parts, sum, sizeof parts);
    for (int apart = VECTOR_BYTES / 32; apart; apart /= 2)
        for (int p = 0; p < apart; p++) parts[p] += parts[apart + p];
    half last = parts[0];
    return sizeof(X) == 8 ? last[0] + last[1] : (last[0] + last[2 % N(two)]) + (last[1] + last[3 % N(two)]);
}

/* Define a function that fills in the sums of TERM(row, x) over `count` rows, in lanes of 64 bytes, in type X.
   The rows follow each other from `first` on; `last` stands in for those beyond it. */
#define SUMS(name, count, TERM)                                                                                \
    static inline void name(const X *rows, i64 first, i64 last, const X *x, i64 d, X *sums) {                  \
        N(vector) sum[count][N(vectors)] = {{{0}}};                                                            \
        const X *row[count];                                                                                   \
        UNROLL for (int r = 0; r < count; r++) row[r] = rows + (first + r < last ? first + r : last) * d;      \
        i64 i = 0;                                                                                             \
        for (; i + N(lanes) <= d; i += N(lanes)) {                                                             \
            UNROLL for (int v = 0; v < N(vectors); v++) {                                                      \
                N(vector) b = *(const N(vector) *)(x + i + v * N(width));                                      \
                UNROLL for (int r = 0; r < count; r++) {                                                       \
                    N(vector) a = *(const N(vector) *)(row[r] + i + v * N(width));                             \
                    sum[r][v] += TERM(a, b);                                                                   \
                }                                                                                              \
            }                                                                                                  \
        }                                                                                                      \
        if (i < d) { /* the rest, filled up with zeros, which change no lane */                                \
            N(vector) a[N(vectors)] = {{0}}, b[N(vectors)] = {{0}};                                            \
            memcpy(b, x + i, (size_t)(d - i) * sizeof(X));                                                     \
            UNROLL for (int r = 0; r < count; r++) {                                                           \
                memcpy(a, row[r] + i, (size_t)(d - i) * sizeof(X));                                            \
                UNROLL for (int v = 0; v < N(vectors); v++) sum[r][v] += TERM(a[v], b[v]);                     \
            }                                                                                                  \
        }                                                                                                      \
        UNROLL for (int r = 0; r < count; r++) sums[r] = N(add_lanes)(sum[r]);                                 \
    }
#define PRODUCT(a, b) ((a) * (b))
#define SQUARED_GAP(a, b) (((a) - (b)) * ((a) - (b)))
SUMS(N(product_of_one), 1, PRODUCT)
SUMS(N(products_of_four), 4, PRODUCT)
SUMS(N(gaps_of_four), 4, SQUARED_GAP)
#undef SUMS

static inline double N(square)(const X *x, const double *point, i64 d) {
    LANE_SUM(d, (x[i] - point[i]) * (x[i] - point[i]))
}

static inline double N(product)(const X *x, const double *point, const double *theta, i64 d) {
    LANE_SUM(d, (x[i] - point[i]) * theta[i])
}

EXPORT void N(group_distances)(const X *rows, const i64 *codes, const double *points, double *found, i64 n,
                               i64 d, i64 g) {
    for (i64 row = 0; row < n; row++) {
        i64 code = codes ? codes[row] : 0;
        code = code < 0 ? 0 : code < g ? code : g - 1;
        found[row] = sqrt(N(square)(rows + row * d, points + code * d, d));
    }
}

EXPORT void N(group_sums)(const X *rows, const i64 *codes, const double *weights, double *sums, double *mass,
                          i64 n, i64 d, i64 g) {
    (void)g;
    for (i64 row = 0; row < n; row++) {
        i64 group = codes ? codes[row] : 0;
        if (group < 0) continue;
        double weight = weights ? weights[row] : 1.0, *restrict total = sums + group * d;
        const X *x = rows + row * d;
        mass[group] += weight;
        for (i64 i = 0; i < d; i++) total[i] += weight * x[i];
    }
}

EXPORT void N(median_sums)(const X *rows, const i64 *codes, const double *weights, const double *points,
                           double *numbers, double *pull, double *near, i64 n, i64 d, i64 g, i64 q) {
    (void)g;
    for (i64 row = 0; row < n; row++) {
        i64 group = codes ? codes[row] : 0;
        if (group < 0) continue;
        double weight = weights ? weights[row] : 1.0, *number = numbers + q * group; /* six */
        double *restrict total = pull + group * d, *restrict nearest = near + group * d;
        const double *z = points + group * d;
        const X *x = rows + row * d;
        double distance = sqrt(N(square)(x, z, d)), inverse = weight / distance;
        number[0] += weight;
        if (distance == 0.0 || weight == 0.0) {
            number[3] += weight;
            continue;
        }
        number[1] += weight * distance;
        number[2] += inverse;
        for (i64 i = 0; i < d; i++) total[i] += (x[i] - z[i]) * inverse;
        if (!(distance <= number[4])) continue;
        if (distance < number[4]) {
            number[4] = distance;
            number[5] = 0.0;
            for (i64 i = 0; i < d; i++) nearest[i] = 0.0;
        }
        number[5] += weight;
        for (i64 i = 0; i < d; i++) nearest[i] += (x[i] - z[i]) * inverse;
    }
}

EXPORT void N(scale_rows)(const X *rows, const double *origin, double scale, double most, float *found, i64 n,
                          i64 d, i64 w) {
    for (i64 row = 0; row < n; row++) {
        const X *x = rows + row * d;
        float *restrict y = found + row * w;
        for (i64 i = 0; i < d; i++) {
            double value = (x[i] - origin[i]) / scale;
            value = -most > value ? -most : value;
            y[i] = (float)(most < value ? most : value);
        }
    }
}

#define CLIP_ROWS(name, Y)                                                                                     \
    EXPORT void name(const X *rows, const double *origin, double scale, double longest, Y *found, i64 n, i64 d,\
                     i64 w) {                                                                                  \
        for (i64 row = 0; row < n; row++) {                                                                    \
            const X *x = rows + row * d;                                                                       \
            Y *restrict y = found + row * w;                                                                   \
            double length = sqrt(N(square)(x, origin, d)), most = longest / (scale > length ? scale : length); \
            double factor = most < 1.0 / scale ? most : 1.0 / scale;                                           \
            for (i64 i = 0; i < d; i++) y[i] = (Y)((x[i] - origin[i]) * factor);                               \
        }                                                                                                      \
    }
CLIP_ROWS(N(clip_rows), double)
CLIP_ROWS(N(clip_rows_single), float)
#undef CLIP_ROWS

EXPORT void N(check_and_hash)(const X *rows, const uint64_t *factors, const uint64_t *fixed, double largest,
                              uint8_t *good, uint64_t *keys, uint64_t *marks, i64 n, i64 d) {
    for (i64 row = 0; row < n; row++) {
        const X *x = rows + row * d;
        uint64_t key = 0, mark = 0, bad = 0;
        for (i64 i = 0; i < d; i++) {
            double value = (double)x[i] + 0.0; /* turns minus zero into zero */
            uint64_t bits;
            memcpy(&bits, &value, 8);
            bad |= !(fabs(value) <= largest);
            bits ^= bits >> 32;
            key += bits * factors[i];
            mark += bits * fixed[i];
        }
        good[row] = !bad;
        keys[row] = key;
        marks[row] = bad ? 0 : mark;
    }
}

EXPORT void N(running_means)(const X *rows, const double *center, i64 count, double *restrict total,
                             double *objectives, double *distances, i64 n, i64 d) {
    for (i64 row = 0; row < n; row++) {
        const X *x = rows + row * d;
        for (i64 i = 0; i < d; i++) total[i] += x[i] - center[i];
        distances[row] = sqrt(N(square)(x, center, d));
        objectives[row] = sqrt(square_length(total, d)) / (double)(count + row + 1);
    }
}

/* Subtract from each score `factor` times the inner product of its offset with x. */
static void N(subtract_products)(const X *offsets, i64 n, i64 d, const X *x, double factor, double *scores) {
    for (i64 row = 0; row < n; row += 4) {
        X sums[4];
        N(products_of_four)(offsets, row, n - 1, x, d, sums);
        for (int r = 0; r < 4 && row + r < n; r++) scores[row + r] -= factor * sums[r];
    }
}

/* Return the best of the rows whose scores are too close to tell, the first of equals, from the rows. */
static i64 N(decide)(const X *rows, const double *center, const double *theta, const double *squares,
                     const double *scores, i64 best, double slack, double unit, double weight, i64 n, i64 d,
                     i64 *close_calls) {
    double least = scores[best] - slack * sqrt(squares[best]) - unit * weight * squares[best], top = 0.0;
    i64 found = -1, rivals = 0;
    for (int deciding = 0; deciding < 2; deciding++) {
        for (i64 row = 0; row < n; row++) {
            double error = slack * sqrt(squares[row]) + unit * weight * squares[row];
            if (row != best && !(scores[row] + error >= least)) continue;
            rivals++;
            if (!deciding) continue;
            double square = N(square)(rows + row * d, center, d);
            double score = N(product)(rows + row * d, center, theta, d) - weight * square;
            if (found < 0 || score > top) {
                found = row;
                top = score;
            }
        }
        if (rivals == 1) return best;
    }
    ++*close_calls;
    return found;
}

/* Pick rows one after the other; products come from `gram` or, where that is NULL, from `offsets`, if any.

   The error of a row's score is at most `unit` times its norm and that of theta, for which `spread` is the
   square, plus `unit` times its penalty. Where a row comes so close to the best that such errors may have
   decided, the rows decide. Returns how many picks these were. */
EXPORT i64 N(greedy)(const X *rows, const double *center, const double *start, const double *squares,
                     double weight, const X *gram, const X *offsets, double unit, double spread, i64 count,
                     double *restrict scores, double *restrict theta, i64 *picks, double *objectives,
                     double *distances, i64 n, i64 d, i64 size) {
    double largest = squares[0];
    i64 close_calls = 0;
    for (i64 row = 1; row < n; row++)
        if (squares[row] > largest || isnan(squares[row])) largest = squares[row];
    for (i64 turn = 0; turn < size; turn++) {
        i64 best = 0;
        while (best + 1 < n && scores[best] == -INFINITY) best++; /* picked already */
        double top = scores[best], second = -INFINITY, slack = unit * sqrt(spread);
        for (i64 row = best + 1; row < n; row++) {
            if (!(scores[row] > second)) continue;
            if (scores[row] > top) {
                second = top;
                top = scores[row];
                best = row;
            } else
                second = scores[row];
        }
        if (second >= top - 2.0 * (slack * sqrt(largest) + unit * weight * largest))
            best = N(decide)(rows, center, theta, squares, scores, best, slack, unit, weight, n, d, &close_calls);
        const X *x = rows + best * d;
        for (i64 i = 0; i < d; i++) theta[i] -= x[i] - center[i];
        picks[turn] = best;
        distances[turn] = sqrt(N(square)(x, center, d));
        objectives[turn] = sqrt(f64_square(start, theta, d)) / (double)(count + turn + 1);
        spread += squares[best];
        scores[best] = -INFINITY;
        if (gram)
            for (i64 row = 0; row < n; row++) scores[row] -= gram[best * n + row];
        else if (offsets && turn + 1 < size)
            N(subtract_products)(offsets, n, d, offsets + best * d, 1.0, scores);
    }
    return close_calls;
}

/* Pick rows of batches: `owners` says whose centre and theta each batch goes by, `counts` how many picks these
   have had. Ends before a batch of which a squared length is beyond `largest`; returns how many were done.

   Memory: `offsets` for the largest batch and two rows, `squares` and `scores` for as many rows. */
EXPORT i64 N(greedy_batches)(const X *rows, const i64 *firsts, const i64 *sizes, const i64 *quotas,
                             const i64 *owners, const double *centers, const double *starts, double weight,
                             double unit, double largest, i64 *counts, double *thetas, X *offsets, double *squares,
                             double *scores, i64 *picks, double *objectives, double *distances, i64 n, i64 d,
                             i64 b, i64 g, i64 o, i64 m, i64 k) {
    X *near = offsets + m * d, *rest = near + d;
    (void)n, (void)g, (void)o, (void)k;
    for (i64 batch = 0; batch < b; batch++) {
        i64 size = sizes[batch], quota = quotas[batch], owner = owners[batch];
        const X *own = rows + firsts[batch] * d;
        const double *center = centers + owner * d;
        double *theta = thetas + owner * d, spread = 0.0;
        if (!quota) continue;
        for (i64 i = 0; i < d; i++) {
            near[i] = (X)center[i];
            rest[i] = (X)(center[i] - near[i]);
        }
        for (i64 row = 0; row < size; row++)
            for (i64 i = 0; i < d; i++) offsets[row * d + i] = (own[row * d + i] - near[i]) - rest[i];
        for (i64 row = 0; row < size; row++) {
            X square;
            N(product_of_one)(offsets, row, row, offsets + row * d, d, &square);
            if (!(square <= largest)) return batch;
            squares[row] = square;
            scores[row] = -weight * squares[row];
        }
        for (i64 i = 0; i < d; i++) {
            near[i] = (X)theta[i];
            spread += theta[i] * theta[i];
        }
        N(subtract_products)(offsets, size, d, near, -1.0, scores);
        N(greedy)(own, center, starts + owner * d, squares, weight, NULL, offsets, unit, spread, counts[owner],
                  scores, theta, picks, objectives, distances, size, d, quota);
        counts[owner] += quota;
        picks += quota;
        objectives += quota;
        distances += quota;
    }
    return b;
}

/* Draw rows, each with probability by its squared distance to those before; returns how many there are.

   The first one is given. `sure`: share of a squared distance in type X that is no rounding error; where it does
   not tell, float64 does. Memory: `gaps` by row, `sums` by block of rows, `point` one row. */
EXPORT i64 N(spread_out)(const X *rows, const double *draws, double sure, i64 *chosen, double *gaps, double *sums,
                         double *point, i64 n, i64 d, i64 k, i64 c, i64 b) {
    (void)k;
    for (i64 row = 0; row < n; row++) gaps[row] = INFINITY;
    for (i64 block = 0; block < b; block++) sums[block] = 0.0;
    for (i64 made = 1; made < c; made++) {
        const X *x = rows + chosen[made - 1] * d;
        double total = 0.0;
        for (i64 i = 0; i < d; i++) point[i] = x[i];
        for (i64 block = 0; block < b; block++) {
            i64 first = block * GAP_ROWS, end = first + GAP_ROWS < n ? first + GAP_ROWS : n;
            int lower = 0;
            for (i64 row = first; row < end; row += 4) {
                X near[4];
                N(gaps_of_four)(rows, row, end - 1, x, d, near);
                for (int r = 0; r < 4 && row + r < end; r++) {
                    if (near[r] * sure >= gaps[row + r] && near[r] < (X)INFINITY) continue;
                    double exact = N(square)(rows + (row + r) * d, point, d);
                    if (exact < gaps[row + r]) {
                        gaps[row + r] = exact;
                        lower = 1;
                    }
                }
            }
            if (lower) {
                sums[block] = 0.0;
                for (i64 row = first; row < end; row++) sums[block] += gaps[row];
            }
            total += sums[block];
        }
        if (total == 0.0) return made;
        double wanted = draws[made - 1] * total, before = 0.0;
        i64 block = 0, drawn = 0;
        for (; block + 1 < b && before + sums[block] <= wanted; block++) before += sums[block];
        while (block > 0 && sums[block] == 0.0) block--; /* tiny numbers are rounded up */
        for (i64 row = block * GAP_ROWS; row < n && row < (block + 1) * GAP_ROWS; row++) {
            if (!(gaps[row] > 0.0)) continue;
            drawn = row;
            before += gaps[row];
            if (before > wanted) break;
        }
        chosen[made] = drawn;
    }
    return c;
}

/* Find the two least of some squared distances, without what all have in common, and where the least is. */
static inline i64 N(two_least)(const X *products, const X *sizes, i64 g, X *one, X *two) {
    enum { VECTORS = LANES / N(width) };
    N(vector) least_of[VECTORS], second_of[VECTORS];
    N(mask) place_of[VECTORS] = {{0}};
    X least[LANES], second[LANES], top = (X)INFINITY, next = (X)INFINITY;
    INTEGER place[LANES];
    i64 at = 0, whole = g - g % LANES;
    for (int v = 0; v < VECTORS; v++) least_of[v] = second_of[v] = (N(vector)){0} + (X)INFINITY;
#define CHOOSE(which, a, b) (((which) & (N(mask))(a)) | (~(which) & (N(mask))(b)))
    for (i64 first = 0; first < whole; first += LANES) {
        UNROLL for (int v = 0; v < VECTORS; v++) {
            N(vector) product = *(const N(vector) *)(products + first + v * N(width));
            N(vector) value = product * (X)-2 + *(const N(vector) *)(sizes + first + v * N(width));
            N(vector) best = least_of[v], other = (N(vector))CHOOSE(best > value, best, value);
            second_of[v] = (N(vector))CHOOSE(other < second_of[v], other, second_of[v]);
            place_of[v] = CHOOSE(value < best, (N(mask)){0} + (INTEGER)first, place_of[v]);
            least_of[v] = (N(vector))CHOOSE(best < value, best, value);
        }
    }
#undef CHOOSE
    memcpy(least, least_of, sizeof least);
    memcpy(second, second_of, sizeof second);
    memcpy(place, place_of, sizeof place);
    for (int j = 0; j < LANES; j++) {
        if (least[j] < top) {
            at = place[j] + j;
            next = second[j] < top ? second[j] : top;
            top = least[j];
        } else
            next = least[j] < next ? least[j] : next;
    }
    for (i64 i = whole; i < g; i++) {
        X value = products[i] * (X)-2 + sizes[i];
        if (value < top) {
            at = i;
            next = top;
            top = value;
        } else
            next = value < next ? value : next;
    }
    *one = top;
    *two = next;
    return at;
}

EXPORT void N(nearest_points)(const X *products, const X *sizes, const double *errors, i64 *found, uint8_t *unsure,
                              double *least, i64 n, i64 g) {
    for (i64 row = 0; row < n; row++) {
        const X *own = products + row * g;
        X one, two;
        found[row] = N(two_least)(own, sizes, g, &one, &two);
        least[row] = one;
        double limit = one + 2.0 * errors[row];
        unsure[row] = !(two > limit);
        for (i64 i = 0; unsure[row] && i < g; i++)
            if (own[i] * (X)-2 + sizes[i] <= limit) {
                found[row] = i;
                break;
            }
    }
}

/* Return e^x, of each number, for numbers up to zero; those below LEAST count as LEAST. */
static inline N(vector) N(power)(N(vector) x) {
    const N(vector) none = {0};
    N(mask) above = x > none + (X)LEAST;
    x = (N(vector))((above & (N(mask))x) | (~above & (N(mask))(none + (X)LEAST)));
    /* In the last bits of `moved` is a whole number k, and what is added to it in the exponent of 2^k. */
    N(vector) moved = x * (X)1.4426950408889634 + (X)WHOLE, k = moved - (X)WHOLE;
    N(vector) r = (x - k * (X)LN2) - k * (X)LN2_REST, sum = none + (X)(1.0 / factorials[TERMS]);
    UNROLL for (int term = TERMS - 1; term >= 0; term--) sum = sum * r + (X)(1.0 / factorials[term]);
    return sum * (N(vector))((N(mask))moved << DIGITS);
}

/* Return the largest number of a vector. */
static inline X N(most)(N(vector) top) {
    typedef X quarter __attribute__((vector_size(16)));
    typedef INTEGER which __attribute__((vector_size(16)));
    quarter part[VECTOR_BYTES / 16];
    memcpy(part, &top, sizeof part);
    for (int apart = VECTOR_BYTES / 32; apart; apart /= 2)
        for (int p = 0; p < apart; p++) {
            which above = part[apart + p] > part[p];
            part[p] = (quarter)((above & (which)part[apart + p]) | (~above & (which)part[p]));
        }
    X one = part[0][0];
    for (int j = 1; j < N(two); j++) one = part[0][j] > one ? part[0][j] : one;
    return one;
}

/* Return the larger of each two numbers. */
static inline N(vector) N(larger)(N(vector) value, N(vector) top) {
    N(mask) above = value > top;
    return (N(vector))((above & (N(mask))value) | (~above & (N(mask))top));
}

/* Return the sum of p numbers, a multiple of the lanes. */
static inline X N(total)(const X *x, i64 p) {
    N(vector) sum[N(vectors)] = {{0}};
    for (i64 i = 0; i < p; i += N(lanes))
        UNROLL for (int v = 0; v < N(vectors); v++) sum[v] += *(const N(vector) *)(x + i + v * N(width));
    return N(add_lanes)(sum);
}

/* Fill in the products of p numbers each; return their sum. */
static inline X N(multiply)(const X *x, const X *y, X *found, i64 p) {
    N(vector) sum[N(vectors)] = {{0}};
    for (i64 i = 0; i < p; i += N(lanes))
        UNROLL for (int v = 0; v < N(vectors); v++) {
            i64 at = i + v * N(width);
            sum[v] += *(N(vector) *)(found + at) = *(const N(vector) *)(x + at) * *(const N(vector) *)(y + at);
        }
    return N(add_lanes)(sum);
}

/* Fill in e^(factor * x + bias), all divided by the largest; return their sum. `p` is a multiple of the lanes. */
static inline X N(powers)(const X *x, X factor, const X *bias, X *found, i64 p) {
    N(vector) sum[N(vectors)] = {{0}}, top = (N(vector)){0} - (X)INFINITY;
    for (i64 i = 0; i < p; i += N(width)) {
        N(vector) value = *(const N(vector) *)(x + i) * factor + *(const N(vector) *)(bias + i);
        top = N(larger)(value, top);
        *(N(vector) *)(found + i) = value;
    }
    X most = N(most)(top);
    for (i64 i = 0; i < p; i += N(lanes))
        UNROLL for (int v = 0; v < N(vectors); v++) {
            N(vector) *own = (N(vector) *)(found + i + v * N(width));
            sum[v] += *own = N(power)(*own - most);
        }
    return N(add_lanes)(sum);
}

/* Fill in what a noise model concludes of rows from their scores and given classes; see trust/noise.py.

   `factors`, `bias`: of each of the model's parts, behind those of the classifier alone. `given`, `right`, `empty`:
   by part and given class the probability of that class by true class; where classes are many, one line for all,
   and beside it the probability from the class itself, and from none. The c classes are followed by the open set, and by bias of minus
   infinity and zeros up to p. Memory: three lines. */
EXPORT void N(judge_labels)(const X *scores, const i64 *codes, const X *factors, const X *bias, const double *weights,
                            const X *given, const X *right, const X *empty, X *memory, double *wrong, i64 *suggested,
                            double *likely, double *outside, double *evidence, double *probability, i64 n, i64 c,
                            i64 a, i64 p, i64 k, i64 g, i64 m) {
    X *own = memory, *part = own + p, *joint = part + p;
    (void)a, (void)m;
    memset(own, 0, (size_t)p * sizeof(X));
    for (i64 row = 0; row < n; row++) {
        i64 code = codes[row], best = 0;
        memcpy(own, scores + row * c, (size_t)c * sizeof(X));
        X all = N(powers)(own, factors[0], bias, part, p);
        probability[row] = part[code] / all;
        evidence[row] = 0.0;
        memset(joint, 0, (size_t)p * sizeof(X));
        for (i64 at = 0; at < k; at++) {
            const X *by = given + (at * g + (g > 1 ? code : 0)) * p;
            all = N(powers)(own, factors[at + 1], bias + (at + 1) * p, part, p);
            X mine = part[code] * right[at * c + code], none = part[c] * empty[at * c + code];
            X total = N(multiply)(part, by, part, p), share;
            if (g == 1) {
                part[code] = mine;
                part[c] = none;
                total = N(total)(part, p);
            }
            share = (X)(weights[at] / total);
            evidence[row] += weights[at] * (double)(total / all);
            for (i64 i = 0; i < p; i += N(width)) *(N(vector) *)(joint + i) += *(N(vector) *)(part + i) * share;
        }
        double doubt = 1.0 - joint[code];
        wrong[row] = doubt < 0.0 ? 0.0 : doubt;
        outside[row] = joint[c];
        joint[code] = joint[c] = -1;
        N(vector) tops = (N(vector)){0} - (X)INFINITY;
        for (i64 i = 0; i < p; i += N(width)) tops = N(larger)(*(const N(vector) *)(joint + i), tops);
        X top = N(most)(tops);
        while (best + 1 < c && joint[best] != top) best++;
        suggested[row] = best;
        likely[row] = joint[best] < 0 ? 0.0 : joint[best];
    }
}

/* Take one step of expectation maximisation of a noise model; see trust/noise.py.

   `odds`: weights of the true classes beside the likelihood of each row. `given`, `right`, `empty`: as in
   judge_labels. Fills in by true class the sums of its probability without the label, of the squares, and with the
   label; the last by given class for that class, and, unless `counts` is NULL, for each; and the probability of each
   label. Memory: a line. */
EXPORT void N(noise_step)(const X *likelihood, const i64 *codes, const X *odds, const X *given, const X *right,
                          const X *empty, X *memory, X *expected, X *squares, X *truth, X *own, X *counts, X *totals,
                          i64 n, i64 p, i64 g, i64 c) {
#define AT(array) (*(N(vector) *)((array) + i))
#define READ(array) (*(const N(vector) *)((array) + i))
    memset(expected, 0, (size_t)p * sizeof(X));
    memset(squares, 0, (size_t)p * sizeof(X));
    memset(truth, 0, (size_t)p * sizeof(X));
    memset(own, 0, (size_t)c * sizeof(X));
    if (counts) memset(counts, 0, (size_t)(c * p) * sizeof(X));
    for (i64 row = 0; row < n; row++) {
        i64 code = codes[row];
        const X *x = likelihood + row * p, *by = given + (g > 1 ? code : 0) * p;
        X *restrict seen = counts ? counts + code * p : NULL;
        X share = 1 / N(multiply)(x, odds, memory, p);
        X mine = memory[code] * share * right[code], none = memory[c] * share * empty[code];
        for (i64 i = 0; i < p; i += N(width)) {
            N(vector) likely = AT(memory) * share;
            AT(expected) += likely;
            AT(squares) += likely * likely;
            AT(memory) = likely * READ(by);
        }
        if (g == 1) {
            memory[code] = mine;
            memory[c] = none;
        }
        totals[row] = N(total)(memory, p);
        share = 1 / totals[row];
        own[code] += memory[code] * share;
        for (i64 i = 0; i < p; i += N(width)) {
            N(vector) likely = AT(memory) * share;
            AT(truth) += likely;
            if (seen) AT(seen) += likely;
        }
    }
#undef AT
#undef READ
}

/* Run every loop on made-up numbers. */
static void N(test)(struct made *made) {
    X rows[ROWS * WIDTH], gram[ROWS * ROWS], offsets[(ROWS + 2) * WIDTH];
    double sums[GROUPS * WIDTH] = {0}, near[GROUPS * WIDTH] = {0}, wide[ROWS * WIDTH], one[ROWS], two[ROWS];
    double numbers[6 * GROUPS] = {0}, mass[GROUPS] = {0}, *points = made->points, *shares = made->shares;
    float narrow[ROWS * WIDTH];
    uint64_t keys[ROWS], marks[ROWS];
    i64 found[ROWS] = {0}, batch[] = {0, ROWS, PICKS, 0}, count = 2;
    uint8_t good[ROWS];
    for (int i = 0; i < ROWS * WIDTH; i++) rows[i] = (X)draw(made);
    for (int i = 0; i < ROWS * ROWS; i++) gram[i] = (X)draw(made);
    for (int i = 0; i < GROUPS; i++) numbers[6 * i + 4] = INFINITY;
#define HASH(values) add_to_hash(made, values, sizeof values)
    N(group_distances)(rows, made->codes, points, one, ROWS, WIDTH, GROUPS);
    N(group_sums)(rows, made->codes, shares, sums, mass, ROWS, WIDTH, GROUPS);
    HASH(one), HASH(sums), HASH(mass);
    N(median_sums)(rows, made->codes, shares, points, numbers, sums, near, ROWS, WIDTH, GROUPS, 6);
    HASH(sums), HASH(near), HASH(numbers);
    N(running_means)(rows, points, count, sums, one, two, ROWS, WIDTH);
    N(clip_rows)(rows, points, 0.7, 3.0, wide, ROWS, WIDTH, WIDTH);
    N(scale_rows)(rows, points, 0.7, 1.5, narrow, ROWS, WIDTH, WIDTH);
    HASH(one), HASH(two), HASH(wide), HASH(narrow);
    N(clip_rows_single)(rows, points, 0.7, 3.0, narrow, ROWS, WIDTH, WIDTH);
    HASH(narrow);
    N(check_and_hash)(rows, made->keys, made->keys, 0.99, good, keys, marks, ROWS, WIDTH);
    HASH(good), HASH(keys), HASH(marks);
    N(nearest_points)(gram, rows, shares, found, good, one, ROWS, ROWS);
    HASH(found), HASH(good), HASH(one);
    N(greedy)(rows, points, points + WIDTH, shares, 0.5, gram, NULL, 1e-2, 2.0, count, one, sums, found, two,
              wide, ROWS, WIDTH, PICKS);
    HASH(found), HASH(one), HASH(two), HASH(wide), HASH(sums);
    N(greedy_batches)(rows, batch, batch + 1, batch + 2, batch + 3, points, points + WIDTH, 0.5, 1e-7, 1e9,
                      &count, sums, offsets, one, two, found, wide, wide + PICKS, ROWS, WIDTH, 1, 1, ROWS + 2,
                      ROWS, PICKS);
    HASH(found), HASH(offsets), HASH(one), HASH(two), HASH(wide), HASH(sums);
    N(spread_out)(rows, shares, 0.999, found, one, two, sums, ROWS, WIDTH, PICKS, PICKS + 1, 1);
    HASH(found), HASH(one);
    X factors[] = {1, 3}, lines[3 * LINE];
    for (int i = 0; i < 3 * LINE; i++) lines[i] = i < WIDTH ? 0 : i < LINE ? -(X)INFINITY : offsets[i];
    N(judge_labels)(rows, made->numbers, factors, lines, shares, gram, gram + WIDTH, gram + 2 * WIDTH, offsets, one,
                    found, two, sums, near, wide, ROWS, WIDTH, 2, LINE, 1, 1, 3);
    HASH(found), HASH(one), HASH(two), HASH(sums), HASH(near), HASH(wide);
    N(noise_step)(gram, made->numbers, rows, rows, rows, rows, lines, offsets, offsets + LINE, offsets + 2 * LINE,
                  offsets + 3 * LINE, NULL, gram + 8 * LINE, 8, LINE, 1, WIDTH);
    HASH(offsets), HASH(gram);
#undef HASH
}
