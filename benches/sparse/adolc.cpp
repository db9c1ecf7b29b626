// The Jacobian of the residuals of `examples/minimal-surface/surface.slang` by ADOL-C, with ColPack's colouring: prints the seconds that the trace,
// the pattern with its colours, and then each Jacobian take, and writes the matrix as lines of row, column and number.
// Debian's ADOL-C is built without ColPack, so what its `sparse_jac` does is done here: `jac_pat`, a colouring of columns
// with the smallest last, `fov_forward` with all colours at once, and ColPack's recovery.
#include <adolc/adolc.h>
#include <adolc/adolc_sparse.h>
#include <ColPack/ColPackHeaders.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <sys/resource.h>

static int n;

static double edge(double x, double y)
{
    return 0.5 * std::sin(6.283185307179586 * x) * (1 - 2 * y) + 0.3 * std::cos(6.283185307179586 * y);
}

template <class T> static T height(const std::vector<T>& u, int i, int j)
{
    if (i >= 0 && j >= 0 && i < n && j < n) return u[i * n + j];
    return edge((i + 1) / double(n + 1), (j + 1) / double(n + 1));
}

template <class T> static void residuals(const std::vector<T>& u, std::vector<T>& r)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
        {
            T centre = height(u, i, j);
            T north = height(u, i + 1, j), south = height(u, i - 1, j);
            T east = height(u, i, j + 1), west = height(u, i, j - 1);
            T corners = height(u, i + 1, j + 1) - height(u, i + 1, j - 1) - height(u, i - 1, j + 1) + height(u, i - 1, j - 1);
            T ux = (north - south) * (0.5 * (n + 1)), uy = (east - west) * (0.5 * (n + 1));
            r[i * n + j] = (1 + uy * uy) * (north - 2 * centre + south) - 0.5 * ux * uy * corners
                + (1 + ux * ux) * (east - 2 * centre + west);
        }
}

static double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char** argv)
{
    n = argc > 1 ? std::atoi(argv[1]) : 319;
    int count = n * n;
    std::vector<double> at(count);
    for (int k = 0; k < count; k++) at[k] = 0.25 * std::sin(0.01 * k);
    double start = now();
    trace_on(1);
    {
        std::vector<adouble> u(count), r(count);
        for (int k = 0; k < count; k++) u[k] <<= at[k];
        residuals(u, r);
        double ignored;
        for (int k = 0; k < count; k++) r[k] >>= ignored;
    }
    trace_off();
    double traced = now();
    int options[3] = { 0, 0, 0 };
    std::vector<unsigned int*> pattern(count);
    jac_pat(1, count, count, at.data(), pattern.data(), options);
    ColPack::BipartiteGraphPartialColoringInterface graph(SRC_MEM_ADOLC, pattern.data(), count, count);
    double** seed = nullptr;
    int seedRows = 0, colours = 0;
    graph.GenerateSeedJacobian(&seed, &seedRows, &colours, "SMALLEST_LAST", "COLUMN_PARTIAL_DISTANCE_TWO");
    double planned = now();
    ColPack::JacobianRecovery1D recovery;
    unsigned int *rows = nullptr, *columns = nullptr;
    double *values = nullptr, **products = myalloc2(count, colours);
    std::vector<double> y(count);
    int nonzeros = 0;
    double each = 1e9;
    for (int round = 0; round < 5; round++)
    {
        double begin = now();
        fov_forward(1, count, count, colours, at.data(), seed, y.data(), products);
        if (round == 0)
            nonzeros = recovery.RecoverD2Cln_CoordinateFormat(&graph, products, pattern.data(), &rows, &columns, &values);
        else
            recovery.RecoverD2Cln_CoordinateFormat_usermem(&graph, products, pattern.data(), &rows, &columns, &values);
        each = std::min(each, now() - begin);
    }
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    std::fprintf(stderr, "trace %.3f s, pattern and %d colours %.3f s, each Jacobian %.4f s, %d numbers, %ld MB\n", traced - start,
        colours, planned - traced, each, nonzeros, used.ru_maxrss / 1024);
    if (argc > 2)
    {
        FILE* out = std::fopen(argv[2], "w");
        for (int k = 0; k < nonzeros; k++) std::fprintf(out, "%u %u %.17g\n", rows[k], columns[k], values[k]);
        std::fclose(out);
    }
}
