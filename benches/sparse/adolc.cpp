// Sparse Jacobians by ADOL-C, with ColPack's colouring, of the residuals of `examples/minimal-surface/surface.slang`
// (`adolc surface FILE N`) and of GradBench's `ba` (`adolc ba FILE N M P`): prints the seconds that the trace, the pattern with
// its colours, and then each Jacobian take, and writes the matrix to FILE, unless it is `-`, as lines of row, column and number.
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
#include <cstring>
#include <string>
#include <vector>
#include <sys/resource.h>

using Numbers = std::vector<double>;
template <class T> using Array3 = T[3];

// ---- the surface

static double edge(double x, double y)
{
    return 0.5 * std::sin(6.283185307179586 * x) * (1 - 2 * y) + 0.3 * std::cos(6.283185307179586 * y);
}

template <class T> static T height(const std::vector<T>& u, int n, int i, int j)
{
    if (i >= 0 && j >= 0 && i < n && j < n) return u[i * n + j];
    return edge((i + 1) / double(n + 1), (j + 1) / double(n + 1));
}

template <class T> static std::vector<T> surface(const std::vector<T>& u, int n)
{
    std::vector<T> r(n * n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
        {
            auto at = [&](int a, int b) { return height(u, n, i + a, j + b); };
            T centre = at(0, 0), north = at(1, 0), south = at(-1, 0), east = at(0, 1), west = at(0, -1);
            T corners = at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1);
            T ux = (north - south) * (0.5 * (n + 1)), uy = (east - west) * (0.5 * (n + 1));
            r[i * n + j] = (1 + uy * uy) * (north - 2 * centre + south) - 0.5 * ux * uy * corners
                + (1 + ux * ux) * (east - 2 * centre + west);
        }
    return r;
}

// ---- the bundle: the inputs are in the order of `ba.slang`'s columns, each field of all cameras together

static const double CAMERA[11]
    = { -0.758453, -1.109613, -0.845551, 34.556073, 39.676747, 53.881673, 419.194514, 5.864426, -8.51887, 0.087812, 0.002739 };
static const double POINT[3] = { 7.203245, 0.001144, 3.023326 }, FEATURE[2] = { 271.760969, 834.209256 };
static const int FIELDS[6] = { 0, 3, 6, 7, 9, 11 };

static Numbers bundleInputs(int n, int m, int p)
{
    Numbers x;
    for (int f = 0; f < 5; f++)
        for (int k = 0; k < n; k++) x.insert(x.end(), CAMERA + FIELDS[f], CAMERA + FIELDS[f + 1]);
    for (int k = 0; k < m; k++) x.insert(x.end(), POINT, POINT + 3);
    x.insert(x.end(), p, 0.417022);
    return x;
}

template <class T> static T dot(const Array3<T>& a, const Array3<T>& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

template <class T> static std::vector<T> bundle(const std::vector<T>& x, int n, int m, int p)
{
    std::vector<T> r(3 * p);
    for (int i = 0; i < p; i++)
    {
        int c = i % n;
        const T *rotation = &x[3 * c], *centre = &x[3 * n + 3 * c], focal = x[6 * n + c];
        const T *offset = &x[7 * n + 2 * c], *distortion = &x[9 * n + 2 * c], *point = &x[11 * n + 3 * (i % m)];
        const T& weight = x[11 * n + 3 * m + i];
        Array3<T> v, axis, seen, from;
        for (int k = 0; k < 3; k++) v[k] = rotation[k], from[k] = point[k] - centre[k];
        T angle = sqrt(dot(v, v)), cosine = cos(angle), sine = sin(angle);
        for (int k = 0; k < 3; k++) axis[k] = v[k] / angle;
        T along = dot(axis, from) * (1 - cosine);
        for (int k = 0; k < 3; k++)
        {
            int a = (k + 1) % 3, b = (k + 2) % 3;
            seen[k] = from[k] * cosine + (axis[a] * from[b] - axis[b] * from[a]) * sine + axis[k] * along;
        }
        T u = seen[0] / seen[2], w = seen[1] / seen[2], square = u * u + w * w;
        T scale = (1 + distortion[0] * square + distortion[1] * square * square) * focal;
        r[2 * i] = weight * (u * scale + offset[0] - FEATURE[0]);
        r[2 * i + 1] = weight * (w * scale + offset[1] - FEATURE[1]);
        r[2 * p + i] = 1 - weight * weight;
    }
    return r;
}

static double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char** argv)
{
    bool isSurface = argc == 4 && !std::strcmp(argv[1], "surface");
    if (!isSurface && !(argc == 6 && !std::strcmp(argv[1], "ba")))
    {
        std::fprintf(stderr, "usage: adolc surface FILE N | adolc ba FILE N M P\n");
        return 2;
    }
    int sizes[3] = {};
    for (int k = 3; k < argc; k++) sizes[k - 3] = std::atoi(argv[k]);
    Numbers at;
    if (isSurface)
        for (int k = 0; k < sizes[0] * sizes[0]; k++) at.push_back(0.25 * std::sin(0.01 * k));
    else
        at = bundleInputs(sizes[0], sizes[1], sizes[2]);
    int inputs = int(at.size()), outputs;
    double start = now();
    trace_on(1);
    {
        std::vector<adouble> u(inputs);
        for (int k = 0; k < inputs; k++) u[k] <<= at[k];
        std::vector<adouble> r = isSurface ? surface(u, sizes[0]) : bundle(u, sizes[0], sizes[1], sizes[2]);
        outputs = int(r.size());
        double ignored;
        for (adouble& x : r) x >>= ignored;
    }
    trace_off();
    double traced = now();
    int options[3] = { 0, 0, 0 };
    std::vector<unsigned int*> pattern(outputs);
    jac_pat(1, outputs, inputs, at.data(), pattern.data(), options);
    ColPack::BipartiteGraphPartialColoringInterface graph(SRC_MEM_ADOLC, pattern.data(), outputs, inputs);
    double** seed = nullptr;
    int seedRows = 0, colours = 0;
    graph.GenerateSeedJacobian(&seed, &seedRows, &colours, "SMALLEST_LAST", "COLUMN_PARTIAL_DISTANCE_TWO");
    double planned = now();
    ColPack::JacobianRecovery1D recovery;
    unsigned int *rows = nullptr, *columns = nullptr;
    double *values = nullptr, **products = myalloc2(outputs, colours);
    Numbers y(outputs);
    int nonzeros = 0;
    double each = 1e9;
    for (int round = 0; round < 5; round++)
    {
        double begin = now();
        fov_forward(1, outputs, inputs, colours, at.data(), seed, y.data(), products);
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
    if (std::string(argv[2]) != "-")
    {
        FILE* out = std::fopen(argv[2], "w");
        for (int k = 0; k < nonzeros; k++) std::fprintf(out, "%u %u %.17g\n", rows[k], columns[k], values[k]);
        std::fclose(out);
    }
}
