//! Random wrong use: whatever names, lengths, shapes, types and values a host gives, there is a result or a failure that is
//! the host's, never a panic and never an internal error.

use pullback::{
    Arguments, Compiler, Failure, FailureKind, Function, GradcheckOptions, Kernels, Memory, Value,
};
use serde_json::{Value as Json, json};

const TEXT: &str = "
struct Part : IDifferentiable { float a; float2 b; no_diff int tag; }
struct Row { float3 place; uint n; double d; }
StructuredBuffer<float> data; RWStructuredBuffer<Row> rows; uniform Part part; Texture2D<float4> image;
RWTexture2D<float> written; SamplerState nearest; RWStructuredBuffer<int2> pairs;
[Differentiable] float f(Part p, float w[3], no_diff bool on, out float2 other)
{
    other = p.b * w[1];
    return on ? p.a * w[0] : data[p.tag] * w[2];
}
[Differentiable] float one(float x) { return x * x; }
[shader(\"compute\")] [numthreads(4, 1, 1)] void k(uint3 id : SV_DispatchThreadID)
{
    rows[id.x].n += uint(data[id.x]) + uint(part.tag);
    written[id.xy] = image[id.xy].x + image.SampleLevel(nearest, float2(id.xy), 0).y;
    pairs[id.x] = int2(id.xy);
}
[CUDAKernel] void tensors(TensorView<float> x, TensorView<float2> y) { y[0] = float2(x[0], x[1]); }
";

/// A generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    fn one<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// A name of the program, a path, or none.
    fn name(&mut self) -> &'static str {
        self.one(&[
            "p",
            "w",
            "on",
            "other",
            "result",
            "x",
            "y",
            "data",
            "rows",
            "part",
            "image",
            "written",
            "nearest",
            "pairs",
            "k",
            "f",
            "one",
            "tensors",
            "p.a",
            "p.b[0]",
            "w[7]",
            "w[",
            "[",
            ".",
            "",
            "rows.n",
            "part.b",
            "x.__data",
            "image.__texels",
            "call.arguments.f32",
            "\u{3b1}\u{0}",
            "Part",
            "result[0]",
            "other[1]",
            "data[0]",
        ])
    }

    fn json(&mut self, depth: usize) -> Json {
        match self.below(if depth == 0 { 8 } else { 11 }) {
            0 => json!(1.5),
            1 => json!(-3),
            2 => json!(u64::MAX),
            3 => json!(true),
            4 => json!("nan"),
            5 => json!("text"),
            6 => Json::Null,
            7 => json!(1e300),
            8 => Json::Array((0..self.below(5)).map(|_| self.json(depth - 1)).collect()),
            9 => {
                let fields =
                    ["a", "b", "tag", "place", "n", "d", "size", "shape", "data", "levels", "filter"];
                (0..self.below(5)).map(|_| (self.one(&fields).to_string(), self.json(depth - 1))).collect()
            }
            _ => json!({ "a": 1.0, "b": [1.0, self.json(0)], "tag": self.below(5) }),
        }
    }

    fn shape(&mut self) -> Vec<usize> {
        (0..self.below(7)).map(|_| self.one(&[0, 1, 2, 3, 4, 1 << 20, 1 << 40, usize::MAX])).collect()
    }

    fn arguments(&mut self) -> Arguments {
        if self.below(3) == 0 {
            let good = Arguments::new().with("p", json!({ "a": 1.0, "b": [1.0, 2.0], "tag": 1 }));
            let good = good.with("w", [1.0, 2.0, 3.0]).with("on", true);
            return if self.below(2) == 0 { good } else { good.with(self.name(), self.json(2)) };
        }
        if self.below(2) == 0 {
            let name = self.one(&["x", "result", "other", "p", "w"]);
            return Arguments::from([(
                name,
                self.one(&[json!(0.5), json!([1.0, 2.0]), json!({ "a": 2.0, "b": [1, 2] })]),
            )]);
        }
        (0..self.below(4)).map(|_| (self.name(), Value::from(self.json(2)))).collect()
    }

    fn floats(&mut self) -> Vec<f32> {
        (0..self.below(20)).map(|k| k as f32).collect()
    }

    fn groups(&mut self) -> [u32; 3] {
        std::array::from_fn(|_| self.one(&[0, 1, 2, 5]))
    }
}

/// Counts results and failures; none of them may be a mistake of the compiler.
#[derive(Default)]
struct Seen {
    results: usize,
    failures: usize,
}

impl Seen {
    fn add<T>(&mut self, what: &str, result: Result<T, Failure>) {
        match result {
            Ok(_) => self.results += 1,
            Err(failure) => {
                self.failures += 1;
                assert!(!failure.to_string().is_empty(), "{what}");
                assert_ne!(failure.kind(), FailureKind::Internal, "{what}: {failure}");
            }
        }
    }
}

#[test]
fn of_functions() {
    let module = Compiler::new().text("wrong.slang", TEXT).expect("reads");
    let memory = Memory::new().numbers("data", &[1.0f32, 2.0, 3.0]);
    let f = module.function_with("f", memory).expect("compiles");
    let one = module.function("one").expect("compiles");
    let (mut random, mut seen) = (Random(1), Seen::default());
    for _ in 0..2000 {
        let of: &Function = if random.below(3) == 0 { &one } else { &f };
        let (at, more) = (random.arguments(), random.arguments());
        match random.below(8) {
            0 => seen.add("call", of.call(&at)),
            1 => seen.add("call_many", of.call_many(&[at, more])),
            2 => seen.add("grad", of.grad(&at)),
            3 => seen.add("jvp", of.jvp(&at, more)),
            4 => seen.add("vjp", of.vjp(&at, more)),
            5 => seen.add("jacobian", of.jacobian(&at)),
            6 => seen.add("hessian", of.hessian(&at, random.name())),
            _ => seen.add("hessian_vector", of.hessian_vector(&at, random.name(), more)),
        }
    }
    assert!(seen.results > 70 && seen.failures > 200, "{} {}", seen.results, seen.failures);
    // Compiling takes longer.
    for _ in 0..40 {
        let name = random.name();
        let value = random.json(2);
        let memory = match random.below(4) {
            0 => Memory::new().value(name, value),
            1 => Memory::new().numbers(name, &random.floats()),
            2 => Memory::new().shaped(name, &random.shape(), &random.floats()),
            _ => Memory::new().zeros("data", random.one(&[0, 1, 5, usize::MAX])).value(random.name(), value),
        };
        seen.add("function", module.function_with(random.one(&["f", "one", "k", "g", "", "Part"]), memory));
        let options = GradcheckOptions::new().points(1).at(random.arguments());
        let options = options.range(random.name(), f64::NAN, f64::INFINITY).tolerance(f64::NAN);
        seen.add("gradcheck", one.gradcheck(&options));
    }
}

#[test]
fn of_kernels() {
    let module = Compiler::new().memory(1 << 30).text("wrong.slang", TEXT).expect("reads");
    let mut kernels: Kernels = module.kernels().expect("compiles");
    let (mut random, mut seen) = (Random(2), Seen::default());
    for round in 0..3000 {
        let name = random.name();
        let what = format!("{round} {name}");
        match random.below(11) {
            0 => seen.add(&what, kernels.write_value(name, random.json(3))),
            1 => seen.add(&what, kernels.write_shaped(name, &random.shape(), &random.floats())),
            2 => seen.add(&what, kernels.write_bytes(name, &vec![1; random.below(100)])),
            3 => seen.add(&what, kernels.read_value(name)),
            4 => seen.add(&what, kernels.shape(name)),
            5 => match kernels.buffer::<f32>(name) {
                Ok(buffer) => {
                    seen.add(&what, kernels.write(buffer, &random.floats()));
                    seen.add(&what, kernels.read_into(buffer, &mut random.floats()));
                }
                other => seen.add(&what, other),
            },
            6 => match kernels.buffer::<[i32; 2]>(name) {
                Ok(buffer) => {
                    seen.add(&what, kernels.resize(buffer, random.one(&[0, 1, 7, 1 << 50, usize::MAX])));
                    seen.add(&what, kernels.read(buffer));
                }
                other => seen.add(&what, other),
            },
            7 => {
                // What is well formed, so that dispatches happen.
                seen.add(&what, kernels.write_shaped("image", &[2, 2, 4], &[1.0f32; 16]));
                seen.add(&what, kernels.write_shaped("written", &[2, 2], &[1.0f32; 4]));
                seen.add(&what, kernels.write_value("data", [1.0, 2.0]));
                seen.add(&what, kernels.write_value("rows", json!([])));
                seen.add(&what, kernels.write_value("pairs", [[1, 2]]));
                seen.add(&what, kernels.write_value("part", json!({ "a": 1.0, "b": [1.0, 2.0], "tag": 1 })));
                seen.add(&what, kernels.write_shaped("x", &[2], &[1.0f32; 2]));
                seen.add(&what, kernels.write_shaped("y", &[1, 2], &[1.0f32; 2]));
            }
            8 => seen.add(&what, kernels.kernel(name)),
            9 => {
                let copy = kernels.try_clone();
                seen.add(&what, copy.map(|copy| kernels = copy));
            }
            _ => {
                let kernel = kernels.kernel(random.one(&["k", "tensors"])).expect("a kernel");
                seen.add(&what, kernels.dispatch(kernel, random.groups()));
            }
        }
    }
    assert!(seen.results > 500 && seen.failures > 500, "{} {}", seen.results, seen.failures);
}

#[test]
fn of_programs() {
    let (mut random, mut seen) = (Random(3), Seen::default());
    for _ in 0..120 {
        // The program with a piece cut out or repeated.
        let bytes = TEXT.as_bytes();
        let (a, b) = (random.below(bytes.len()), random.below(bytes.len()));
        let (a, b) = (a.min(b), a.max(b).min(a.min(b) + 40));
        let text = match random.below(2) {
            0 => [&bytes[..a], &bytes[b..]].concat(),
            _ => [&bytes[..b], &bytes[a..]].concat(),
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        match Compiler::new().text("cut.slang", &text) {
            Ok(module) => {
                seen.add(&text, module.function("one"));
                seen.add(&text, module.kernels());
                seen.add(&text, module.check());
            }
            other => seen.add(&text, other),
        }
    }
    assert!(seen.results > 20 && seen.failures > 20, "{} {}", seen.results, seen.failures);
}
