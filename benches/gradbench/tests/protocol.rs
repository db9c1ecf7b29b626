//! Tests the protocol on tiny inputs of every eval, compared with values computed in this file: primal results
//! by the formulas, derivatives by finite differences or closed forms.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

/// The outputs of functions of an eval for one input, in a single conversation.
fn outputs(eval: &str, functions: &[&str], input: &Json) -> Vec<Json> {
    let mut messages = vec![
        json!({ "id": 0, "kind": "start", "eval": eval }),
        json!({ "id": 1, "kind": "define", "module": eval }),
    ];
    for function in functions {
        let id = messages.len();
        messages.push(
            json!({ "id": id, "kind": "evaluate", "module": eval, "function": function, "input": input }),
        );
        messages.push(json!({ "id": id + 1, "kind": "analysis", "of": id, "valid": true }));
    }
    let replies = talk(&messages);
    for (k, reply) in replies.iter().enumerate() {
        assert_eq!(reply["id"], json!(k));
        assert_ne!(reply["success"], json!(false), "{reply}");
    }
    let evaluated = replies[2..].iter().step_by(2);
    evaluated
        .map(|reply| {
            assert!(reply["timings"].as_array().expect("a list").iter().any(|t| t["name"] == "evaluate"));
            reply["output"].clone()
        })
        .collect()
}

fn talk(messages: &[Json]) -> Vec<Json> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pullback-gradbench"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let text: String = messages.iter().map(|m| format!("{m}\n")).collect();
    child.stdin.take().expect("is piped").write_all(text.as_bytes()).expect("writes");
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("is text");
    text.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect()
}

/// All numbers in a JSON value, in order.
fn flat(json: &Json) -> Vec<f64> {
    match json {
        Json::Array(list) => list.iter().flat_map(flat).collect(),
        Json::Object(map) => map.values().flat_map(flat).collect(),
        json => vec![json.as_f64().expect("a number")],
    }
}

#[track_caller]
fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (k, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance * e.abs().max(1.0), "number {k} is {f}, expected {e}");
    }
}

/// The derivatives of the results of `f` at `x` by finite differences: `[input][result]`.
fn differences(x: &[f64], f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<Vec<f64>> {
    let h = 1e-5;
    let at = |k: usize, by: f64| {
        let mut x = x.to_vec();
        x[k] += by;
        f(&x)
    };
    let slope = |k| at(k, h).iter().zip(at(k, -h)).map(|(a, b)| (a - b) / (2.0 * h)).collect();
    (0..x.len()).map(slope).collect()
}

fn gradient(x: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    differences(x, |x| vec![f(x)]).into_iter().flatten().collect()
}

/// Pseudorandom numbers between -1 and 1, the same each time.
fn scattered(n: usize, seed: f64) -> Vec<f64> {
    (0..n).map(|k| (12.9898 * (k as f64 + seed)).sin()).collect()
}

fn nested(numbers: &[f64], columns: usize) -> Json {
    numbers.chunks(columns).map(Json::from).collect()
}

fn log_sum_exp(x: &[f64]) -> f64 {
    x.iter().map(|x| x.exp()).sum::<f64>().ln()
}

#[test]
fn hello() {
    let outputs = outputs("hello", &["square", "double"], &json!(1.5));
    close(&flat(&json!(outputs)), &[2.25, 3.0], 1e-12);
}

#[test]
fn gmm() {
    let (n, d, k, m, gamma) = (5usize, 3usize, 2usize, 1usize, 0.8f64);
    let triangle = d * (d - 1) / 2;
    let x = scattered(n * d, 0.1);
    let at = scattered(k * (1 + 2 * d + triangle), 0.2);
    let objective = |at: &[f64]| {
        let (alpha, rest) = at.split_at(k);
        let (mu, rest) = rest.split_at(k * d);
        let (q, l) = rest.split_at(k * d);
        // The lower triangle of each component, row by row.
        let entry = |c: usize, row: usize, column: usize| {
            let before: usize = (0..column).map(|c| d - 1 - c).sum();
            l[c * triangle + before + row - column - 1]
        };
        let mut total = -((n * d) as f64) * 0.5 * (2.0 * std::f64::consts::PI).ln();
        for i in 0..n {
            let terms: Vec<f64> = (0..k)
                .map(|c| {
                    let centred: Vec<f64> = (0..d).map(|j| x[i * d + j] - mu[c * d + j]).collect();
                    let scaled = (0..d).map(|j| {
                        let off: f64 = (0..j).map(|o| entry(c, j, o) * centred[o]).sum();
                        q[c * d + j].exp() * centred[j] + off
                    });
                    let logs: f64 = q[c * d..(c + 1) * d].iter().sum();
                    alpha[c] + logs - 0.5 * scaled.map(|s| s * s).sum::<f64>()
                })
                .collect();
            total += log_sum_exp(&terms);
        }
        total -= n as f64 * log_sum_exp(alpha);
        // Γ(5/2), Γ(2) and Γ(3/2), for d + m + 1 = 5.
        let root = std::f64::consts::PI.sqrt();
        let gammas = 1.5 * std::f64::consts::PI.ln() + (0.75 * root).ln() + (0.5 * root).ln();
        let constant = (5 * d) as f64 * (gamma.ln() - 0.5 * 2f64.ln()) - gammas;
        for c in 0..k {
            let logs = &q[c * d..(c + 1) * d];
            let squares: f64 = logs.iter().map(|q| (2.0 * q).exp()).sum::<f64>()
                + l[c * triangle..(c + 1) * triangle].iter().map(|l| l * l).sum::<f64>();
            total += constant - 0.5 * gamma * gamma * squares + m as f64 * logs.iter().sum::<f64>();
        }
        total
    };
    let (alpha, rest) = at.split_at(k);
    let (mu, rest) = rest.split_at(k * d);
    let (q, l) = rest.split_at(k * d);
    let input = json!({
        "d": d, "k": k, "n": n, "m": m, "gamma": gamma, "x": nested(&x, d), "alpha": alpha,
        "mu": nested(mu, d), "q": nested(q, d), "l": nested(l, triangle),
    });
    let outputs = outputs("gmm", &["objective", "jacobian"], &input);
    close(&flat(&outputs[0]), &[objective(&at)], 1e-12);
    close(&flat(&outputs[1]), &gradient(&at, objective), 1e-7);
}

#[test]
fn ba() {
    let (n, m, p) = (2usize, 3usize, 6usize);
    let error = |v: &[f64], feature: &[f64]| {
        let (r, x) = (&v[..3], [v[11] - v[3], v[12] - v[4], v[13] - v[5]]);
        let dot = |a: &[f64], b: &[f64]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        let angle = dot(r, r).sqrt();
        let axis = [r[0] / angle, r[1] / angle, r[2] / angle];
        let seen: Vec<f64> = (0..3)
            .map(|k| {
                let (a, b) = ((k + 1) % 3, (k + 2) % 3);
                let cross = axis[a] * x[b] - axis[b] * x[a];
                x[k] * angle.cos() + cross * angle.sin() + axis[k] * dot(&axis, &x) * (1.0 - angle.cos())
            })
            .collect();
        let at = [seen[0] / seen[2], seen[1] / seen[2]];
        let square = at[0] * at[0] + at[1] * at[1];
        let bent = 1.0 + v[9] * square + v[10] * square * square;
        (0..2).map(|k| v[14] * (at[k] * bent * v[6] + v[7 + k] - feature[k])).collect::<Vec<f64>>()
    };
    let mut v = scattered(15, 0.4);
    v[13] += 3.0;
    let feature = [0.3, -0.2];
    let input =
        json!({ "n": n, "m": m, "p": p, "cam": v[..11], "x": v[11..14], "w": v[14], "feat": feature });
    let outputs = outputs("ba", &["objective", "jacobian"], &input);
    close(&flat(&outputs[0]["reproj_error"]["elements"]), &error(&v, &feature), 1e-12);
    close(&flat(&outputs[0]["w_err"]["element"]), &[1.0 - v[14] * v[14]], 1e-12);
    assert_eq!(outputs[0]["w_err"]["repeated"], json!(p));

    let columns = differences(&v, |v| error(v, &feature));
    let mut values: Vec<f64> = (0..2).flat_map(|k| columns.iter().map(move |c| c[k])).collect();
    values.push(-2.0 * v[14]);
    close(&flat(&outputs[1]["vals"]), &values, 1e-7);
    let own: Vec<usize> = (0..11).chain((0..3).map(|k| 11 * n + k)).chain([11 * n + 3 * m]).collect();
    let mut expected = own.repeat(2);
    expected.push(11 * n + 3 * m + p - 1);
    assert_eq!(outputs[1]["cols"], json!(expected));
    // All row pointers: twelve rows of 15, six rows of 1, and the end.
    let rows: Vec<usize> = (0..12).map(|r| 15 * r).chain((0..=6).map(|r| 180 + r)).collect();
    assert_eq!(outputs[1]["rows"], json!([&rows[..], &rows[18..]].concat()));
}

#[test]
fn lstm() {
    let (layers, bits, times) = (2usize, 3usize, 4usize);
    let n = 8 * layers * bits;
    let state = scattered(2 * layers * bits, 0.6);
    let sequence: Vec<f64> = (0..times * bits).map(|k| f64::from(u8::from(k % 3 != 1))).collect();
    let at = scattered(n + 3 * bits, 0.5);
    let objective = |at: &[f64]| {
        let (main, extra) = at.split_at(n);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let mut state = state.clone();
        let mut total = 0.0;
        for t in 0..times - 1 {
            let mut x: Vec<f64> = (0..bits).map(|j| sequence[t * bits + j] * extra[j]).collect();
            for layer in 0..layers {
                for j in 0..bits {
                    let gate = |g: usize, x: f64| {
                        let at = 8 * layer * bits + g * bits + j;
                        x * main[at] + main[at + 4 * bits]
                    };
                    let (hidden, cell) = (2 * layer * bits + j, (2 * layer + 1) * bits + j);
                    let change = gate(3, state[hidden]).tanh();
                    let kept = state[cell] * sigmoid(gate(0, x[j]));
                    state[cell] = kept + sigmoid(gate(1, state[hidden])) * change;
                    state[hidden] = sigmoid(gate(2, x[j])) * state[cell].tanh();
                    x[j] = state[hidden];
                }
            }
            let y: Vec<f64> = (0..bits).map(|j| x[j] * extra[bits + j] + extra[2 * bits + j]).collect();
            let all = (2.0 + y.iter().map(|y| y.exp()).sum::<f64>()).ln();
            total += (0..bits).map(|j| sequence[(t + 1) * bits + j] * (y[j] - all)).sum::<f64>();
        }
        -total / ((times - 1) * bits) as f64
    };
    let input = json!({
        "main_params": nested(&at[..n], 4 * bits), "extra_params": nested(&at[n..], bits),
        "state": nested(&state, bits), "sequence": nested(&sequence, bits),
    });
    let outputs = outputs("lstm", &["objective", "jacobian"], &input);
    close(&flat(&outputs[0]), &[objective(&at)], 1e-12);
    close(&flat(&outputs[1]), &gradient(&at, objective), 1e-8);
}

/// An affine map: a matrix of three rows, and an offset.
type Affine = ([[f64; 3]; 3], [f64; 3]);

fn then(a: &Affine, b: &Affine) -> Affine {
    let turn = std::array::from_fn(|r| std::array::from_fn(|c| (0..3).map(|k| a.0[r][k] * b.0[k][c]).sum()));
    (turn, moved(a, &b.1))
}

fn moved(a: &Affine, x: &[f64; 3]) -> [f64; 3] {
    std::array::from_fn(|r| a.0[r][0] * x[0] + a.0[r][1] * x[1] + a.0[r][2] * x[2] + a.1[r])
}

fn turn_about(axis: usize, angle: f64) -> Affine {
    let (b, c) = ((axis + 1) % 3, (axis + 2) % 3);
    let mut m = [[0.0; 3]; 3];
    m[axis][axis] = 1.0;
    (m[b][b], m[b][c], m[c][b], m[c][c]) = (angle.cos(), -angle.sin(), angle.sin(), angle.cos());
    (m, [0.0; 3])
}

#[test]
fn ht() {
    let (bones, vertices) = (22usize, 4usize);
    // A forearm, a wrist, and five fingers of four bones each, attached to the wrist; each bone is stored
    // beside its parent.
    let parents: Vec<i32> = (0..bones as i32).map(|b| if b >= 2 && b % 4 == 2 { 1 } else { b - 1 }).collect();
    let places = scattered(3 * bones, 0.7);
    let at_rest = |b: usize| -> Affine {
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], std::array::from_fn(|k| places[3 * b + k]))
    };
    let back = |b: usize| -> Affine {
        let mut m = turn_about(2, 0.3 * b as f64);
        m.1 = [0.1, -0.2, 0.05 * b as f64];
        m
    };
    let base = scattered(3 * vertices, 0.8);
    let weights: Vec<f64> =
        scattered(vertices * bones, 0.9).iter().map(|w| if w.abs() < 0.3 { 0.0 } else { *w }).collect();
    let (us, points) = (scattered(4, 1.1), scattered(6, 1.2));
    let triangles = [[0, 1, 2], [1, 2, 3]];
    let errors = |at: &[f64]| {
        let (us, theta) = at.split_at(4);
        let length = (theta[0] * theta[0] + theta[1] * theta[1] + theta[2] * theta[2]).sqrt();
        let a = [theta[0] / length, theta[1] / length, theta[2] / length];
        let (s, c) = length.sin_cos();
        // The rotation about an axis, computed by rotating each unit vector.
        let turned = |x: [f64; 3]| -> [f64; 3] {
            let dot = a[0] * x[0] + a[1] * x[1] + a[2] * x[2];
            std::array::from_fn(|k| {
                let (i, j) = ((k + 1) % 3, (k + 2) % 3);
                x[k] * c + (a[i] * x[j] - a[j] * x[i]) * s + a[k] * dot * (1.0 - c)
            })
        };
        let mut bend = vec![[0.0; 2]; bones];
        for finger in 0..5 {
            let (b, t) = (2 + 4 * finger, 6 + 4 * finger);
            (bend[b], bend[b + 1][0], bend[b + 2][0]) =
                ([theta[t], theta[t + 1]], theta[t + 2], theta[t + 3]);
        }
        let mut absolutes: Vec<Affine> = Vec::new();
        for b in 0..bones {
            let own = then(&at_rest(b), &then(&turn_about(2, bend[b][1]), &turn_about(0, bend[b][0])));
            let whole = usize::try_from(parents[b]).map_or(own, |p| then(&absolutes[p], &own));
            absolutes.push(whole);
        }
        let position = |v: usize| -> [f64; 3] {
            let mut sum = [0.0; 3];
            for b in 0..bones {
                let x =
                    moved(&then(&absolutes[b], &back(b)), &[base[3 * v], base[3 * v + 1], base[3 * v + 2]]);
                (0..3).for_each(|k| sum[k] += weights[v * bones + b] * x[k]);
            }
            let turned = turned(sum);
            std::array::from_fn(|k| turned[k] + theta[3 + k])
        };
        let mut errors = Vec::new();
        for i in 0..2 {
            let corners: Vec<[f64; 3]> = triangles[i].iter().map(|&v| position(v)).collect();
            let (u, v) = (us[2 * i], us[2 * i + 1]);
            for k in 0..3 {
                let at = u * corners[0][k] + v * corners[1][k] + (1.0 - u - v) * corners[2][k];
                errors.push(points[3 * i + k] - at);
            }
        }
        errors
    };
    let matrix = |m: Affine| {
        let mut rows: Vec<Vec<f64>> = (0..3).map(|r| [&m.0[r][..], &[m.1[r]]].concat()).collect();
        rows.push(vec![0.0, 0.0, 0.0, 1.0]);
        json!(rows)
    };
    let theta = scattered(26, 1.0);
    let at = [&us[..], &theta[..]].concat();
    let homogeneous: Vec<Json> = base.chunks(3).map(|x| json!([x[0], x[1], x[2], 1.0])).collect();
    let input = json!({
        "theta": theta, "us": nested(&us, 2),
        "data": { "correspondences": [0, 1], "points": nested(&points, 3), "model": {
            "bone_count": bones, "bone_names": vec!["bone"; bones], "parents": parents,
            "base_relatives": (0..bones).map(|b| matrix(at_rest(b))).collect::<Json>(),
            "inverse_base_absolutes": (0..bones).map(|b| matrix(back(b))).collect::<Json>(),
            "base_positions": homogeneous, "weights": nested(&weights, bones),
            "triangles": triangles, "is_mirrored": false,
        } },
    });
    let outputs = outputs("ht", &["objective", "jacobian"], &input);
    close(&flat(&outputs[0]), &errors(&at), 1e-12);
    // A row has the two columns of its own point, followed by those of theta.
    let slopes = differences(&at, errors);
    let mut rows = Vec::new();
    for r in 0..6 {
        let own = 2 * (r / 3);
        let columns = slopes[own..own + 2].iter().chain(&slopes[4..30]);
        rows.extend(columns.map(|column| column[r]));
    }
    close(&flat(&outputs[1]), &rows, 1e-7);
}

#[test]
fn kmeans() {
    let (n, k, d) = (9, 3, 2);
    let points = scattered(n * d, 1.3);
    let centroids = &points[(n - k) * d..];
    let input = json!({ "points": nested(&points, d), "centroids": nested(centroids, d) });
    let outputs = outputs("kmeans", &["cost", "dir"], &input);
    // Newton's step leads to the mean of the points of each cluster.
    let (mut cost, mut sums, mut counts) = (0.0, vec![0.0; k * d], vec![0.0; k]);
    for p in points.chunks(d) {
        let distance = |c: &[f64]| p.iter().zip(c).map(|(p, c)| (p - c) * (p - c)).sum::<f64>();
        let distances: Vec<f64> = centroids.chunks(d).map(distance).collect();
        let nearest = (0..k).min_by(|&a, &b| distances[a].total_cmp(&distances[b])).expect("there are some");
        cost += distances[nearest];
        counts[nearest] += 1.0;
        (0..d).for_each(|c| sums[nearest * d + c] += p[c]);
    }
    let step: Vec<f64> = (0..k * d).map(|i| centroids[i] - sums[i] / counts[i / d]).collect();
    close(&flat(&outputs[0]), &[cost], 1e-12);
    close(&flat(&outputs[1]), &step, 1e-12);
}

#[test]
fn llsq() {
    let (n, x) = (7, scattered(4, 1.4));
    let objective = |x: &[f64]| {
        let terms = (0..n).map(|i| {
            let t = -1.0 + i as f64 * 2.0 / (n as f64 - 1.0);
            let sign = if t == 0.0 { 0.0 } else { t.signum() };
            let y: f64 = x.iter().enumerate().map(|(j, x)| x * t.powi(j as i32)).sum();
            0.5 * (sign - y) * (sign - y)
        });
        terms.sum()
    };
    let outputs = outputs("llsq", &["primal", "gradient"], &json!({ "x": x, "n": n }));
    close(&flat(&outputs[0]), &[objective(&x)], 1e-12);
    close(&flat(&outputs[1]), &gradient(&x, objective), 1e-8);
}

#[test]
fn lse() {
    // A single number, fewer numbers than a group has threads, and more than one group takes.
    for n in [1, 10, 5000] {
        let x = scattered(n, 1.5);
        let all = log_sum_exp(&x);
        let softmax: Vec<f64> = x.iter().map(|x| (x - all).exp()).collect();
        let outputs = outputs("lse", &["primal", "gradient"], &json!({ "x": x }));
        close(&flat(&outputs[0]), &[all], 1e-12);
        close(&flat(&outputs[1]), &softmax, 1e-12);
    }
}

#[test]
fn ode() {
    let (x, steps) = (vec![1.5, 0.7, -1.2, 2.0, 0.9, 1.1], 3);
    let solve = |x: &[f64]| {
        let h = 2.0 / steps as f64;
        let f = |y: &[f64]| -> Vec<f64> {
            x.iter().enumerate().map(|(i, x)| if i == 0 { *x } else { x * y[i - 1] }).collect()
        };
        let along = |y: &[f64], k: &[f64], by: f64| -> Vec<f64> {
            y.iter().zip(k).map(|(y, k)| y + by * k).collect()
        };
        let mut y = vec![0.0; x.len()];
        for _ in 0..steps {
            let k1 = f(&y);
            let k2 = f(&along(&y, &k1, h / 2.0));
            let k3 = f(&along(&y, &k2, h / 2.0));
            let k4 = f(&along(&y, &k3, h));
            let sum: Vec<f64> = (0..x.len()).map(|i| k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]).collect();
            y = along(&y, &sum, h / 6.0);
        }
        y
    };
    let outputs = outputs("ode", &["primal", "gradient"], &json!({ "x": x, "s": steps }));
    close(&flat(&outputs[0]), &solve(&x), 1e-12);
    let slope = gradient(&x, |x| solve(x)[5]);
    assert!(slope.iter().all(|s| s.abs() > 1e-3));
    close(&flat(&outputs[1]), &slope, 1e-8);
}

#[test]
fn det() {
    for ell in [2, 3, 5] {
        let a = scattered(ell * ell, 1.6);
        let expanded = |a: &[f64]| determinant(a, ell);
        let outputs = outputs("det", &["primal", "gradient"], &json!({ "A": a, "ell": ell }));
        close(&flat(&outputs[0]), &[expanded(&a)], 1e-12);
        close(&flat(&outputs[1]), &gradient(&a, expanded), 1e-8);
    }
}

/// The determinant by Gaussian elimination.
fn determinant(a: &[f64], n: usize) -> f64 {
    let mut a = a.to_vec();
    let mut product = 1.0;
    for k in 0..n {
        product *= a[k * n + k];
        for r in k + 1..n {
            let factor = a[r * n + k] / a[k * n + k];
            (k..n).for_each(|c| a[r * n + c] -= factor * a[k * n + c]);
        }
    }
    product
}

#[test]
fn particle() {
    let outputs = outputs("particle", &["ff", "fr", "rf", "rr"], &json!({ "w": 0.0 }));
    // The value that other tools find.
    close(&flat(&json!(outputs)), &[0.2071918746486116; 4], 1e-4);
}

#[test]
fn saddle() {
    let outputs = outputs("saddle", &["ff", "fr", "rf", "rr"], &json!({ "start": [1.0, 1.0] }));
    // The saddle point is at zero, in both pairs of coordinates.
    for output in outputs {
        close(&flat(&output), &[0.0; 4], 1e-4);
    }
}

#[test]
fn mistakes_are_answered() {
    let replies = talk(&[
        json!({ "id": 0, "kind": "start" }),
        json!({ "id": 1, "kind": "evaluate", "module": "det", "function": "primal", "input": {} }),
        json!({ "id": 2, "kind": "define", "module": "nothing" }),
        json!({ "id": 3, "kind": "define", "module": "det" }),
        json!({ "id": 4, "kind": "evaluate", "module": "det", "function": "primal", "input": { "ell": 3, "A": [1.0] } }),
        json!({ "id": 5, "kind": "evaluate", "module": "det", "function": "other", "input": {} }),
        json!({ "id": 6, "kind": "something new" }),
    ]);
    let success: Vec<&Json> = replies.iter().map(|r| &r["success"]).collect();
    let (no, yes, none) = (json!(false), json!(true), Json::Null);
    assert_eq!(success, [&none, &no, &no, &yes, &no, &no, &none]);
    assert_eq!(replies[4]["error"], json!("input: `A` has 1 numbers, and 9 are wanted"));
    assert_eq!(replies[6], json!({ "id": 6 }));
}

#[test]
fn runs_are_repeated_as_asked() {
    let input = json!({ "x": [0.1, 0.2], "min_runs": 4, "min_seconds": 0.0 });
    let replies = talk(&[
        json!({ "id": 0, "kind": "define", "module": "lse" }),
        json!({ "id": 1, "kind": "evaluate", "module": "lse", "function": "gradient", "input": input }),
    ]);
    let timings = replies[1]["timings"].as_array().expect("a list");
    assert_eq!(timings.iter().filter(|t| t["name"] == "evaluate").count(), 4);
    assert!(timings.iter().all(|t| t["nanoseconds"].is_u64()));
}
