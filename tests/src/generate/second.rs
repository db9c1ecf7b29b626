//! Programs whose `f` is a derivative of another program's `f`, so that their derivatives are second
//! derivatives.

/// The mode of the inner derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `fwd_diff`
    Forward,
    /// `bwd_diff`
    Reverse,
}

const HEAD: &str = "F f(F x, F y, S s, no_diff int n)";

/// The program in which `f` is replaced by its derivative along a fixed direction. Can be applied to its own
/// result.
pub fn directional(text: &str, way: Way) -> String {
    let number = (0..).find(|k| !text.contains(&format!("inner{k}("))).unwrap_or(0);
    let mut out = text.replace(HEAD, &HEAD.replace("f(", &format!("inner{number}(")));
    let inner = format!("inner{number}");
    out += "[Differentiable]\n";
    out += HEAD;
    out += &match way {
        Way::Forward => format!(
            "\n{{\n    S.Differential d = {{ 0.3, {{ 0.2, -0.5, 1.0 }} }};\n    return fwd_diff({inner})(DifferentialPair<F>(x, \
             0.7), DifferentialPair<F>(y, -0.4), DifferentialPair<S>(s, d), n).d;\n}}\n"
        ),
        Way::Reverse => format!(
            "\n{{\n    var px = DifferentialPair<F>(x, 0);\n    var py = DifferentialPair<F>(y, 0);\n    var ps = \
             diffPair(s);\n    bwd_diff({inner})(px, py, ps, n, F(1));\n    return 0.7 * px.d - 0.4 * py.d + 0.3 * ps.d.a + \
             0.2 * ps.d.b[0] - 0.5 * ps.d.b[1] + ps.d.b[2];\n}}\n"
        ),
    };
    out
}
