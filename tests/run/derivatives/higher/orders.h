// For tests of derivatives of derivatives. ORDERS(f), of a differentiable `double f(double)`, makes all nestings of
// both modes up to order three, and `f_show(x)`, which prints 1 for each order in which all of them agree with each
// other and with the difference quotient of the order before.
#define ORDERS(f) \
    [Differentiable] double f##_f(double x) { return fwd_diff(f)(diffPair(x, 1.0lf)).d; } \
    [Differentiable] double f##_b(double x) { var p = diffPair(x); bwd_diff(f)(p, 1.0lf); return p.d; } \
    [Differentiable] double f##_ff(double x) { return fwd_diff(f##_f)(diffPair(x, 1.0lf)).d; } \
    [Differentiable] double f##_fb(double x) { return fwd_diff(f##_b)(diffPair(x, 1.0lf)).d; } \
    [Differentiable] double f##_bf(double x) { var p = diffPair(x); bwd_diff(f##_f)(p, 1.0lf); return p.d; } \
    [Differentiable] double f##_bb(double x) { var p = diffPair(x); bwd_diff(f##_b)(p, 1.0lf); return p.d; } \
    double f##_bff(double x) { var p = diffPair(x); bwd_diff(f##_ff)(p, 1.0lf); return p.d; } \
    double f##_bfb(double x) { var p = diffPair(x); bwd_diff(f##_fb)(p, 1.0lf); return p.d; } \
    double f##_bbf(double x) { var p = diffPair(x); bwd_diff(f##_bf)(p, 1.0lf); return p.d; } \
    double f##_bbb(double x) { var p = diffPair(x); bwd_diff(f##_bb)(p, 1.0lf); return p.d; } \
    bool f##_near(double a, double b, double tolerance) { return abs(a - b) <= tolerance * (1 + abs(a)); } \
    void f##_show(double x) \
    { \
        double eps = 0.0001lf; \
        double a[2] = { f##_f(x), f##_b(x) }; \
        double b[4] = { f##_ff(x), f##_fb(x), f##_bf(x), f##_bb(x) }; \
        double c[8] = { fwd_diff(f##_ff)(diffPair(x, 1.0lf)).d, fwd_diff(f##_fb)(diffPair(x, 1.0lf)).d, \
                        fwd_diff(f##_bf)(diffPair(x, 1.0lf)).d, fwd_diff(f##_bb)(diffPair(x, 1.0lf)).d, \
                        f##_bff(x), f##_bfb(x), f##_bbf(x), f##_bbb(x) }; \
        double d[3] = { (f(x + eps) - f(x - eps)) / (2 * eps), (f##_f(x + eps) - f##_f(x - eps)) / (2 * eps), \
                        (f##_ff(x + eps) - f##_ff(x - eps)) / (2 * eps) }; \
        bool all[3] = { f##_near(a[0], d[0], 1e-5), f##_near(b[0], d[1], 1e-5), f##_near(c[0], d[2], 1e-5) }; \
        for (int i = 0; i < 8; i++) \
        { \
            all[0] &= f##_near(a[0], a[i & 1], 1e-9); \
            all[1] &= f##_near(b[0], b[i & 3], 1e-9); \
            all[2] &= f##_near(c[0], c[i], 1e-9); \
        } \
        printf("%d %d %d\n", (int)all[0], (int)all[1], (int)all[2]); \
        if (!(all[0] && all[1] && all[2])) \
            printf("  f %g b %g, %g; ff %g fb %g bf %g bb %g, %g; fff %g ffb %g fbf %g fbb %g bff %g bfb %g bbf %g bbb %g, %g\n", \
                a[0], a[1], d[0], b[0], b[1], b[2], b[3], d[1], c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], d[2]); \
    }
