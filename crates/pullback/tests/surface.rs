//! The surface as a host uses it: threads, layouts, failures, and what is wrong.

use std::error::Error;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use pullback::{
    Arguments, Backend, BindingKind, Compiler, Failure, FailureKind, Function, GradcheckOptions, HostType,
    Kernels, Layout, Memory, Module, Recovery, Scalar, Severity, Verdict,
};
use serde_json::json;

fn is_send<T: Send>() {}
fn is_send_and_sync<T: Send + Sync + Clone>() {}

#[test]
fn what_threads_may_share() {
    is_send::<Kernels>();
    is_send_and_sync::<Module>();
    is_send_and_sync::<Function>();
    is_send_and_sync::<Compiler>();
    is_send_and_sync::<Failure>();
    is_send_and_sync::<Memory>();
    is_send_and_sync::<Arguments>();
    is_send_and_sync::<pullback::Buffer<f32>>();
    is_send_and_sync::<pullback::Kernel>();
    is_send_and_sync::<pullback::StopHandle>();
    fn is_error<T: Error + Send + Sync + 'static>() {}
    is_error::<Failure>();
}

const LOSS: &str = "
StructuredBuffer<double> data;
RWStructuredBuffer<double> trace;
struct Line : IDifferentiable { double slope; double2 both; }
[Differentiable] double loss(Line line, no_diff int n)
{
    double sum = 0.0;
    [MaxIters(100)]
    for (int i = 0; i < n; i++)
    {
        double d = line.slope * i + line.both.x * line.both.y - data[i];
        sum += d * d;
    }
    trace[0] += 1.0;
    return sum;
}
";

fn line(slope: f64) -> Arguments {
    Arguments::new().with("line", json!({ "slope": slope, "both": [0.5, 2.0] })).with("n", 4)
}

#[test]
fn many_threads_call_one_function() {
    let module = Compiler::new().text("loss.slang", LOSS).expect("reads");
    let memory = Memory::new().numbers("data", &[1.0, 3.0, 5.0, 8.0]).zeros("trace", 1);
    let loss = module.function_with("loss", memory).expect("compiles");
    let odd = module.function_with("loss", Memory::new().zeros("trace", 1).value("data", json!(["text"])));
    let odd = odd.expect_err("no number").to_string();
    assert!(odd.starts_with("`data`: ") && !odd.contains("--bind"), "{odd}");
    let expected = |slope: f64| {
        let residual = |i: usize| slope * i as f64 + 1.0 - [1.0, 3.0, 5.0, 8.0][i];
        let value: f64 = (0..4).map(|i| residual(i).powi(2)).sum();
        let by_slope: f64 = (0..4).map(|i| 2.0 * i as f64 * residual(i)).sum();
        (value, by_slope)
    };
    std::thread::scope(|scope| {
        for k in 0..4 {
            let loss = loss.clone();
            scope.spawn(move || {
                for j in 0..20 {
                    let slope = f64::from(k) + f64::from(j) * 0.125;
                    let gradient = loss.grad(line(slope)).expect("a gradient");
                    let (value, by_slope) = expected(slope);
                    assert!((gradient.value() - value).abs() < 1e-9);
                    assert!((gradient.number("line.slope").expect("there") - by_slope).abs() < 1e-9);
                    assert_eq!(gradient.list("line.both").expect("there").len(), 2);
                }
            });
        }
    });
}

#[test]
fn products_agree_with_the_jacobian() {
    let text = "
        [Differentiable] double2 f(double x, double2 v, out double third)
        {
            third = sin(x) * v.y;
            return v * x * x;
        }";
    let module = Compiler::new().text("f.slang", text).expect("reads");
    let f = module.function("f").expect("compiles");
    let at = Arguments::new().with("x", 0.7).with("v", [2.0, -1.5]);
    let jacobian = f.jacobian(&at).expect("derivatives");
    assert_eq!(jacobian.outputs(), ["result[0]", "result[1]", "third"]);
    assert_eq!(jacobian.inputs(), ["x", "v[0]", "v[1]"]);
    let (dx, dv, ct) = (0.3, [1.0, -2.0], [0.5, 1.5, -1.0]);
    let (value, tangent) = f.jvp(&at, Arguments::new().with("x", dx).with("v", dv)).expect("a product");
    assert!((value.number("third").expect("there") - 0.7f64.sin() * -1.5).abs() < 1e-12);
    let along = [dx, dv[0], dv[1]];
    for (row, (_, found)) in jacobian.rows().iter().zip(tangent.iter()) {
        let wanted: f64 = row.iter().zip(along).map(|(d, x)| d * x).sum();
        assert!((wanted - found).abs() < 1e-12, "{wanted} {found}");
    }
    let cotangents = Arguments::new().with("result", [ct[0], ct[1]]).with("third", ct[2]);
    let back = f.vjp(&at, cotangents).expect("a product");
    for (column, (_, found)) in back.iter().enumerate() {
        let wanted: f64 = jacobian.rows().iter().zip(ct).map(|(row, c)| row[column] * c).sum();
        assert!((wanted - found).abs() < 1e-12, "{wanted} {found}");
    }
    // What is not named is zero.
    let third = f.vjp(&at, [("third", 1.0)]).expect("a product");
    assert_eq!(third.number("v[0]").expect("there"), 0.0);
    // Second derivatives, and a product with them.
    let hessian = f.hessian(&at, "third").expect("second derivatives");
    let product =
        f.hessian_vector(&at, "third", Arguments::new().with("x", dx).with("v", dv)).expect("a product");
    for (row, (_, found)) in hessian.rows().iter().zip(product.iter()) {
        let wanted: f64 = row.iter().zip(along).map(|(d, x)| d * x).sum();
        assert!((wanted - found).abs() < 1e-12, "{wanted} {found}");
    }
    assert!((hessian.get("x", "v[1]").expect("there") - 0.7f64.cos()).abs() < 1e-12);
    let all = f.call_many(&[at.clone(), at.clone().with("x", 0.0)]).expect("values");
    assert_eq!((all.len(), all[1].list("result").expect("there")), (2, vec![0.0, 0.0]));
    assert_eq!(f.parameters()[2].name, "third");
    assert!(f.parameters()[2].is_output && !f.parameters()[2].is_input);
    assert_eq!(f.result().map(|r| r.numbers.len()), Some(2));
}

#[test]
fn a_wrong_rule_is_found() {
    let text = "
        [ForwardDerivative(slope)] float wrong(float x) { return x * x; }
        DifferentialPair<float> slope(DifferentialPair<float> x) { return diffPair(x.p * x.p, 3 * x.p * x.d); }
        [Differentiable] float f(float x) { return wrong(x); }
        [Differentiable] float cut(float x) { return detach(x) * x; }";
    let module = Compiler::new().text("wrong.slang", text).expect("reads");
    let options = GradcheckOptions::new().points(3).range("x", 1.0, 2.0).seed(7);
    let found = module.function("f").expect("compiles").gradcheck(&options).expect("runs");
    assert!(!found.agrees() && found.entries.iter().all(|e| e.verdict == Verdict::Differs), "{found}");
    assert!(found.to_string().contains("3 of 3 derivatives differ"), "{found}");
    let cut = module.function("cut").expect("compiles").gradcheck(&options).expect("runs");
    assert!(cut.agrees() && cut.entries[0].cut.as_deref() == Some("wrong.slang:5"), "{cut:?}");
}

#[derive(Clone, Copy, Debug, PartialEq, HostType, Pod, Zeroable)]
#[repr(C)]
struct Inner {
    flag: u8,
    #[pullback(padding)]
    _gap: [u8; 3],
    count: i32,
}

/// A vector of another crate.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Vec3(f32, f32, f32);

#[derive(Clone, Copy, Debug, PartialEq, HostType, Pod, Zeroable)]
#[repr(C)]
struct Outer {
    #[pullback(like = "[f32; 3]")]
    place: Vec3,
    #[pullback(name = "type")]
    r#type: u32,
    inner: [Inner; 2],
    turn: [[f32; 3]; 2],
    half: pullback::f16,
    #[pullback(padding)]
    _end: u16,
}

const OUTER: &str = "
struct Inner { bool flag; int count; }
struct Outer { float3 place; uint type; Inner inner[2]; float2x3 turn; half half_; }
RWStructuredBuffer<Outer> all;
[shader(\"compute\")] [numthreads(1, 1, 1)] void k(uint3 id : SV_DispatchThreadID)
{
    Outer o = all[id.x];
    o.place += o.turn[1];
    o.inner[1].flag = !o.inner[1].flag;
    o.inner[0].count += int(o.type);
    all[id.x] = o;
}
";

#[test]
fn structs_go_there_and_back() {
    let text = OUTER.replace("half_", "half");
    let module = match Compiler::new().text("outer.slang", &text).and_then(|m| m.kernels()) {
        Ok(kernels) => kernels,
        Err(why) => panic!("{why}"),
    };
    let mut kernels = module;
    let all = kernels.buffer::<Outer>("all").expect("the layout");
    let inner = Inner { flag: 1, _gap: [0; 3], count: 5 };
    let outer = Outer {
        place: Vec3(1.0, 2.0, 3.0),
        r#type: 7,
        inner: [inner; 2],
        turn: [[0.0; 3], [10.0, 20.0, 30.0]],
        half: pullback::f16::from_f32(1.5),
        _end: 0,
    };
    kernels.write(all, &[outer; 3]).expect("whole elements");
    kernels.dispatch(kernels.kernel("k").expect("a kernel"), [2, 1, 1]).expect("runs");
    let found = kernels.read(all).expect("elements");
    assert_eq!(found[2], outer);
    assert_eq!(found[1].place, Vec3(11.0, 22.0, 33.0));
    assert_eq!((found[1].inner[1].flag, found[1].inner[0].count), (0, 12));
    let json = kernels.read_value("all").expect("JSON");
    assert_eq!(json[1]["inner"][0], json!({ "flag": true, "count": 12 }));
    assert_eq!(json[1]["turn"], json!([[0.0, 0.0, 0.0], [10.0, 20.0, 30.0]]));
    // JSON goes back to the same bytes.
    let bytes = kernels.bytes("all").expect("bytes").to_vec();
    kernels.write_value("all", json).expect("fits");
    assert_eq!(kernels.bytes("all").expect("bytes"), bytes);
    let mut into = [outer; 3];
    kernels.read_into(all, &mut into).expect("as long");
    assert_eq!(into[1], found[1]);
    assert!(kernels.read_into(all, &mut into[..2]).is_err());
}

/// The message about a type with another layout.
fn refused<T: HostType>(kernels: &Kernels, name: &str) -> String {
    let failure = kernels.buffer::<T>(name).expect_err("another layout");
    assert_eq!(failure.kind(), FailureKind::Layout, "{failure}");
    failure.to_string()
}

macro_rules! host {
    ($name:ident { $($field:ident: $ty:ty),* }) => {
        #[derive(Clone, Copy, HostType, Pod, Zeroable)]
        #[repr(C)]
        struct $name { $($field: $ty),* }
    };
}
host!(Short { a: f32 });
host!(Long { a: f32, b: [f32; 2], c: f32 });
host!(Renamed { a: f32, other: [f32; 2] });
host!(Retyped { a: i32, b: [f32; 2] });
host!(Wider { a: f32, b: [f32; 3] });

#[test]
fn other_layouts_are_refused_with_both_names() {
    let text = "
        struct Pair { float a; float2 b; }
        struct Late { double d; float a; }
        RWStructuredBuffer<Pair> pairs; RWStructuredBuffer<Late> lates; RWStructuredBuffer<float3> v;
        RWStructuredBuffer<float2x3> m; RWStructuredBuffer<float*> p;
        [shader(\"compute\")] [numthreads(1, 1, 1)]
        void k() { pairs[0].a = v[0].x + m[0][0][0]; lates[0].a = *p[0]; }";
    let kernels = Compiler::new().text("pair.slang", text).and_then(|m| m.kernels()).expect("compiles");
    let has = |text: String, parts: &[&str]| {
        for part in parts {
            assert!(text.contains(part), "{text}: {part}");
        }
    };
    has(refused::<Short>(&kernels, "pairs"), &["`pairs`", "`Pair.b`", "`Short`"]);
    has(refused::<Long>(&kernels, "pairs"), &["`Long.c`", "`Pair`"]);
    has(refused::<Renamed>(&kernels, "pairs"), &["`Renamed.other`", "`Pair.b`", "name = \"b\""]);
    has(refused::<Retyped>(&kernels, "pairs"), &["`Retyped.a` is `int`", "`Pair.a` is `float`"]);
    has(
        refused::<Wider>(&kernels, "pairs"),
        &["`Wider.b` is `Array<float, 3>`", "`Pair.b` is `vector<float, 2>`"],
    );
    has(refused::<i32>(&kernels, "v"), &["`int` in Rust", "`vector<float, 3>` in the program"]);
    has(refused::<[f32; 4]>(&kernels, "v"), &["`Array<float, 4>`"]);
    has(refused::<[[f32; 2]; 3]>(&kernels, "m"), &["matrix<float, 2, 3>"]);
    assert!(kernels.buffer::<[[f32; 3]; 2]>("m").is_ok() && kernels.buffer::<[f32; 6]>("m").is_ok());
    assert!(kernels.buffer::<f32>("pairs").is_ok(), "numbers of one type");
    assert!(kernels.buffer::<f32>("lates").is_err(), "numbers of two types");
    assert!(kernels.buffer::<u64>("p[0]").is_err() && kernels.buffer::<u64>("p").is_err(), "pointers");
    assert!(kernels.buffer::<f32>("nothing").expect_err("no name").to_string().contains("pairs"));
}

/// A type that tells a wrong size, which nothing keeps one from.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Liar(u32);

impl HostType for Liar {
    fn layout() -> Layout {
        Layout::Array(Box::new(Layout::Scalar(Scalar::F32)), 3)
    }
}

#[test]
fn handles_belong_to_their_kernels() {
    let text =
        "RWStructuredBuffer<float3> v; [shader(\"compute\")] [numthreads(1, 1, 1)] void k() { v[0] += 1; }";
    let module = Compiler::new().text("v.slang", text).expect("reads");
    let (mut one, mut two) = (module.kernels().expect("compiles"), module.kernels().expect("compiles"));
    assert!(one.buffer::<Liar>("v").is_err());
    let (v, k) = (one.buffer::<f32>("v").expect("floats"), one.kernel("k").expect("a kernel"));
    assert!(two.write(v, &[0.0; 3]).is_err() && two.read(v).is_err() && two.dispatch(k, [1, 1, 1]).is_err());
    assert!(
        one.write(v, &[0.0; 4]).is_err() && one.resize(v, 4).is_err() && one.resize(v, usize::MAX).is_err()
    );
    assert!(one.dispatch(k, [1, 1, 1]).expect_err("no content").to_string().contains("`v`"));
    one.resize(v, 6).expect("two elements");
    let mut copy = one.try_clone().expect("a copy");
    one.dispatch(k, [1, 1, 1]).expect("runs");
    assert_eq!(copy.read(v).expect("floats"), [0.0; 6]);
    copy.dispatch(k, [1, 1, 1]).expect("runs");
    copy.dispatch(k, [1, 1, 1]).expect("runs");
    assert_eq!(one.read(v).expect("floats")[..3], [1.0; 3]);
    assert_eq!(copy.read(v).expect("floats")[..3], [2.0; 3]);
    let moved = std::thread::spawn(move || {
        one.dispatch(k, [1, 1, 1]).map(|_| one.read(v)).expect("runs on another thread")
    });
    assert_eq!(moved.join().expect("no panic").expect("floats")[0], 2.0);
}

#[test]
fn a_dispatch_is_stopped_from_another_thread() {
    let text = "
        RWStructuredBuffer<uint> o;
        [shader(\"compute\")] [numthreads(1, 1, 1)] void k(uint3 id : SV_DispatchThreadID)
        {
            uint sum = 0;
            for (uint i = 0; i < 20000; i++) sum = sum * 1664525 + i + id.x;
            if (sum == 1) o[0] = id.x;
        }";
    let module = Compiler::new().text("long.slang", text).expect("reads");
    let mut kernels = module.kernels().expect("compiles");
    kernels.write_value("o", [0]).expect("a buffer");
    let k = kernels.kernel("k").expect("a kernel");
    let stop = kernels.stop_handle();
    let stopper = std::thread::spawn({
        let stop = stop.clone();
        move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            stop.stop();
        }
    });
    let failure = kernels.dispatch(k, [u32::MAX, 4, 1]).expect_err("it would take days");
    assert_eq!(failure.kind(), FailureKind::Stopped, "{failure}");
    stopper.join().expect("no panic");
    stop.resume();
    kernels.dispatch(k, [1, 1, 1]).expect("runs again");
}

#[test]
fn textures_tensors_and_reflection() {
    let text = "
        struct Camera { float4x4 view; float3 place; }
        uniform Camera camera; Texture2D<float4> image; SamplerState linear; RWTexture2D<float2> written;
        RWStructuredBuffer<float4> o;
        [CUDAKernel] void twice(TensorView<float> x, TensorView<float> y)
        {
            for (uint i = 0; i < x.size(0); i++) y[i] = 2 * x[i];
        }
        [shader(\"compute\")] [numthreads(1, 1, 1)] void k()
        {
            o[0] = image.SampleLevel(linear, float2(0.5, 0.5), 0) + camera.place.x;
            written[uint2(1, 0)] = float2(5, 6);
        }";
    let mut kernels = Compiler::new().text("t.slang", text).and_then(|m| m.kernels()).expect("compiles");
    let kinds: Vec<_> = kernels.bindings().iter().map(|b| (b.name.as_str(), b.kind, b.is_writable)).collect();
    for wanted in [
        ("camera", BindingKind::Uniform, false),
        ("image", BindingKind::Texture, false),
        ("linear", BindingKind::Sampler, false),
        ("written", BindingKind::Texture, true),
        ("o", BindingKind::Buffer, true),
        ("x", BindingKind::Tensor, true),
    ] {
        assert!(kinds.contains(&wanted), "{wanted:?} in {kinds:?}");
    }
    let camera = kernels.bindings().iter().find(|b| b.name == "camera").expect("there");
    let Layout::Struct { name, fields, size, .. } = &camera.layout else { panic!("{:?}", camera.layout) };
    assert_eq!(
        (name.as_str(), *size, fields[1].name.as_str(), fields[1].offset),
        ("Camera", 76, "place", 64)
    );

    kernels.write_shaped("image", &[1, 2, 3], &[1.0f32, 2.0, 3.0, 3.0, 4.0, 5.0]).expect("three channels");
    kernels.write_value("linear", json!({ "filter": "linear", "address": "clamp" })).expect("a sampler");
    kernels.write_shaped("written", &[1, 2, 2], &[0.0f32; 4]).expect("a texture");
    kernels
        .write_value("camera", json!({ "view": vec![0.0; 16], "place": [1.0, 0.0, 0.0] }))
        .expect("a struct");
    kernels.write_value("o", [[0.0; 4]]).expect("a buffer");
    kernels.write_shaped("x", &[3], &[1.0f32, 2.0, 3.0]).expect("a tensor");
    kernels.write_shaped("y", &[3], &[0.0f32; 3]).expect("a tensor");
    kernels.dispatch(kernels.kernel("k").expect("a kernel"), [1, 1, 1]).expect("runs");
    kernels.dispatch(kernels.kernel("twice").expect("a kernel"), [1, 1, 1]).expect("runs");
    assert_eq!(kernels.read_value("o").expect("JSON"), json!([[3.0, 4.0, 5.0, 2.0]]));
    assert_eq!(kernels.read_value("written").expect("JSON"), json!([[[0.0, 0.0], [5.0, 6.0]]]));
    assert_eq!(kernels.read_value("y").expect("JSON"), json!([2.0, 4.0, 6.0]));
    assert_eq!(kernels.shape("written").expect("a shape"), [1, 2, 2]);
    assert!(kernels.shape("o").is_err());
    assert!(kernels.write_shaped("image", &[2, 2, 3], &[0.0f32; 5]).is_err());
}

#[test]
fn failures_say_where_and_what() {
    let broken =
        Compiler::new().text("b.slang", "float f(float x) {\n    return x +;\n}").expect_err("no expression");
    assert_eq!(broken.kind(), FailureKind::Program);
    let shown: &dyn Error = &broken;
    let text = shown.to_string();
    assert!(
        text.contains("b.slang:2:") && text.contains("return x +;") && text.contains("1 error"),
        "{text}"
    );
    let first = &broken.diagnostics()[0];
    assert_eq!((first.severity, first.place.as_ref().map(|p| p.line)), (Severity::Error, Some(2)));
    assert!(first.rendered.contains("return x +;") && first.code.starts_with('E'));

    let missing = Compiler::new().path("/there/is/no.slang").expect_err("no file");
    assert_eq!(missing.kind(), FailureKind::File);
    let lost = "float g(float x) { return x; } [Differentiable] float f(float x) { return g(x) * 2.0; }";
    let module = Compiler::new().text("lost.slang", lost).expect("reads");
    let lost = module.function("f").expect_err("a derivative is lost");
    assert_eq!(lost.kind(), FailureKind::Program, "{lost}");
    assert!(module.check().is_err());

    let stopped = "
        [Differentiable] float f(float x) { [MaxIters(3)] for (int i = 0; i < 5; i++) x *= x; return x; }
        float g(int n) { int k = 0; [MaxIters(3)] while (k < n) k++; return k; }
        [Differentiable] float h(float x, no_diff int n)
        {
            [MaxIters(3)] for (int i = 0; i < n; i++) x *= x;
            return x;
        }";
    let module = Compiler::new().text("s.slang", stopped).expect("reads");
    let h = module.function("h").expect("compiles");
    let failure = h.grad(Arguments::new().with("x", 1.0).with("n", 5)).expect_err("too many trips");
    assert_eq!(failure.kind(), FailureKind::Stopped, "{failure}");
    assert!(failure.to_string().contains("s.slang:6"), "{failure}");

    let endless = "float f(float x) { while (x > 0) x += 1; return x; }";
    let module =
        Compiler::new().backend(Backend::Interpreter).seconds(0.05).text("e.slang", endless).expect("reads");
    let failure = module.function("f").expect("compiles").call([("x", 1.0)]).expect_err("it takes too long");
    assert_eq!(failure.kind(), FailureKind::Stopped, "{failure}");

    let backend = "nothing".parse::<Backend>().expect_err("no name");
    assert_eq!(backend.kind(), FailureKind::Backend);
    for backend in Backend::ALL {
        assert_eq!(backend.name().parse::<Backend>().ok(), Some(backend));
        let made = Compiler::new().backend(backend).text("f.slang", "float f(float x) { return 2 * x; }");
        match backend.is_available() {
            true => {
                let found = made.and_then(|m| m.function("f")).and_then(|f| f.call([("x", 1.5)]));
                assert_eq!(found.and_then(|n| n.number("result")).expect("runs"), 3.0, "{backend}");
            }
            false => assert_eq!(made.expect_err("not there").kind(), FailureKind::Backend, "{backend}"),
        }
    }
}

#[test]
fn modules_are_text_and_warnings_can_be_hidden() {
    let warned = "float f(float x) { float y; if (x > 0) y = 1; return y; }";
    let of = |compiler: Compiler| {
        let module = compiler
            .file("part.slang", warned)
            .text("m.slang", "import part; float g(float x) { return f(x); }");
        module.and_then(|m| m.function("g")).expect("compiles").warnings().to_vec()
    };
    let shown = of(Compiler::new());
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!(
        (shown[0].severity, shown[0].place.as_ref().map(|p| p.file.as_str())),
        (Severity::Warning, Some("part.slang"))
    );
    assert!(of(Compiler::new().allow(shown[0].code)).is_empty());
}

#[test]
fn numbers_keep_their_bits() {
    let text = "
        uint64_t whole(uint64_t x) { return x + 1; }
        double same(double x) { return x; }
        bool no(bool x) { return !x; }";
    let module = Compiler::new().text("n.slang", text).expect("reads");
    let whole = module.function("whole").expect("compiles").call([("x", u64::MAX - 1)]).expect("runs");
    assert_eq!(whole.to_json(), json!({ "result": u64::MAX }));
    assert_eq!(whole.to_string(), "result = 18446744073709551615");
    let same = module.function("same").expect("compiles");
    for x in [f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE / 2.0, -0.0, 0.1] {
        let found = same.call([("x", x)]).and_then(|n| n.number("result")).expect("runs");
        assert_eq!(found.to_bits(), x.to_bits());
    }
    assert!(same.call([("x", f64::NAN)]).and_then(|n| n.number("result")).expect("runs").is_nan());
    let no = module.function("no").expect("compiles").call([("x", true)]).expect("runs");
    assert_eq!((no.get("result"), no.scalar("result")), (Some(0.0), Some(Scalar::Bool)));
    // One function behind many owners.
    let shared: Arc<dyn Fn(f64) -> f64 + Send + Sync> =
        Arc::new(move |x| same.call([("x", x)]).ok().and_then(|n| n.get("result")).unwrap_or(f64::NAN));
    assert_eq!(shared(2.0), 2.0);
}

#[test]
fn arrays_of_resources_have_the_length_that_the_host_gives() {
    let text = "
        StructuredBuffer<float> tables[];
        StructuredBuffer<DescriptorHandle<StructuredBuffer<float>>> chosen;
        RWStructuredBuffer<float> o;
        [shader(\"compute\")] [numthreads(1, 1, 1)]
        void k() { o[0] = tables[0][0] + 10 * tables[1][1] + 100 * chosen[0][0]; }";
    let named = Compiler::new().length("tables", 2).length("StructuredBuffer<float>.Handle", 2);
    let mut kernels = named.text("tables.slang", text).and_then(|m| m.kernels()).expect("compiles");
    kernels.write_value("tables[0]", [1.0]).expect("a buffer");
    kernels.write_value("tables[1]", [2.0, 3.0]).expect("a buffer");
    kernels.write_value("StructuredBuffer<float>.Handle[0]", [4.0]).expect("a buffer");
    kernels.write_value("StructuredBuffer<float>.Handle[1]", [5.0]).expect("a buffer");
    kernels.write_value("chosen", [json!({ "__number": [1, 0] })]).expect("numbers");
    kernels.write_value("o", [0.0]).expect("a buffer");
    kernels.dispatch(kernels.kernel("k").expect("a kernel"), [1, 1, 1]).expect("runs");
    assert_eq!(kernels.read_value("o").expect("JSON"), json!([531.0]));
    let unknown = Compiler::new().text("tables.slang", text).and_then(|m| m.kernels());
    assert!(unknown.is_err_and(|why| why.to_string().contains("E0919")));
}

#[test]
fn sparse_matrices_are_the_dense_ones() {
    // A function of each kind: loops whose trips depend on numbers, branches, structs, calls of itself, memory, powers of
    // the same number, a long row, and a result that depends on nothing.
    let text = "
        StructuredBuffer<int> next;
        struct Pair : IDifferentiable { double a; double2 b; }
        [Differentiable] double[6] loops(double x[6])
        {
            double y[6];
            for (int i = 0; i < 6; i++)
            {
                y[i] = 0;
                for (int k = 0; k < int(x[i]); k++) y[i] += x[k] * x[i];
            }
            return y;
        }
        [Differentiable] double depth(double x[6], no_diff int at)
        {
            return at > 4 ? x[at] : x[at] * depth(x, at + 2);
        }
        [Differentiable] double[6] calls(double x[6])
        {
            double y[6] = x;
            y[0] = depth(x, 0);
            y[1] = depth(x, 1);
            if (x[2] > 2.0l) y[3] = x[0] * x[4];
            return y;
        }
        [Differentiable] double[6] linked(double x[6])
        {
            double y[6] = {};
            for (int i = 0; i < 6; i++) y[next[i]] += sin(x[i]) * x[next[i]];
            return y;
        }
        [Differentiable] double2 structs(Pair p, float q, out Pair r)
        {
            r.a = p.a * p.a;
            r.b = p.b * double(q);
            return double2(p.b.x, 1.0l);
        }
        [Differentiable] double[6] rows(double x[6])
        {
            double y[6] = {}, product = 1;
            for (int i = 0; i < 6; i++) product *= x[i];
            for (int i = 0; i < 6; i++) y[i] = x[i] * x[i];
            y[5] = product;
            return y;
        }
        [Differentiable] double energy(double x[6])
        {
            double sum = 0;
            for (int i = 0; i < 5; i++) sum += x[i] * x[i] * x[next[i]];
            return sum + (x[0] > 0 ? x[0] * x[5] : x[1]);
        }";
    let module = Compiler::new().text("f.slang", text).expect("reads");
    let next = Memory::new().numbers("next", &[3, 1, 4, 4, 0, 2]);
    let x = Arguments::new().with("x", [1.5, 3.25, 2.5, 4.75, 5.5, 0.5]);
    let pair = json!({ "a": 2.0, "b": [3.0, 4.0] });
    let structs = Arguments::new().with("p", pair).with("q", 1.5);
    for (name, at, most) in [
        ("loops", &x, 6),
        ("calls", &x, 5),
        ("linked", &x, 4),
        ("structs", &structs, 2),
        ("rows", &x, 2),
        ("energy", &x, 6),
    ] {
        let f = module.function_with(name, next.clone()).expect("compiles");
        let (dense, sparse) =
            (f.jacobian(at).expect("derivatives"), f.sparse_jacobian(at).expect("derivatives"));
        assert_eq!(sparse.dense(), dense.rows(), "{name}");
        assert_eq!((sparse.outputs(), sparse.inputs()), (dense.outputs(), dense.inputs()));
        let (forward, reverse) = sparse.products();
        assert!(forward + reverse <= most, "{name}: {forward} and {reverse}");
        let again = f.sparse_jacobian_again(at, &sparse).expect("derivatives");
        assert_eq!(again, sparse, "{name}");
        for output in dense.outputs() {
            let dense = f.hessian(at, output).expect("derivatives");
            for recovery in [Recovery::Direct, Recovery::Substitution] {
                let sparse = f.sparse_hessian(at, output, recovery).expect("derivatives");
                assert_eq!(sparse.dense(), dense.rows(), "{name} {output}");
                let again = f.sparse_hessian_again(at, output, &sparse).expect("derivatives");
                assert_eq!(again, sparse, "{name} {output}");
            }
        }
    }
}

/// So many numbers that all cores compute the products, in several groups, of which the last is not full.
#[test]
fn a_large_matrix_has_the_numbers_of_its_formula() {
    const N: usize = 7000;
    let text = "
        static const int N = 7000;
        [Differentiable] double[N] f(double x[N], float y, no_diff int apart)
        {
            double r[N];
            for (int i = 0; i < N; i++)
            {
                r[i] = x[i] * x[i] * double(y);
                for (int k = 1; k <= 4; k++) r[i] += k * x[(i + k * apart) % N];
            }
            return r;
        }";
    let module = Compiler::new().text("f.slang", text).expect("reads");
    let f = module.function("f").expect("compiles");
    let mut before = None;
    for step in [0.5, 0.25] {
        let x: Vec<f64> = (0..N).map(|i| 1.0 + step * (i % 8) as f64).collect();
        let at = Arguments::new().with("x", x.clone()).with("y", 1.5).with("apart", 11);
        let found = match &before {
            None => f.sparse_jacobian(&at),
            Some(before) => f.sparse_jacobian_again(&at, before),
        };
        let found = found.expect("derivatives");
        let (forward, reverse) = found.products();
        assert!(forward + reverse > 4 && forward + reverse < 20, "{forward} and {reverse}");
        for (i, x) in x.iter().enumerate() {
            let mut row: Vec<(usize, f64)> = (1..=4).map(|k| ((i + 11 * k) % N, k as f64)).collect();
            row.extend([(i, 3.0 * x), (N, x * x)]);
            row.sort_by_key(|number| number.0);
            let range = found.starts()[i]..found.starts()[i + 1];
            let columns = found.columns()[range.clone()].iter().map(|&column| column as usize);
            let own: Vec<(usize, f64)> = columns.zip(found.values()[range].iter().copied()).collect();
            assert_eq!(own, row, "row {i}");
        }
        before = Some(found);
    }
}

/// A half beside doubles makes these no less exact, and a number that is not finite hides none.
#[test]
fn another_pattern_is_seen_by_small_numbers() {
    let text = "
        [Differentiable] double[2] f(double x[3], half y)
        {
            double r[2] = { 3 * x[0] + (x[0] > 0 ? x[1] * x[1] + log(x[2]) : 0.0l), double(y) };
            return r;
        }";
    let module = Compiler::new().text("f.slang", text).expect("reads");
    let f = module.function("f").expect("compiles");
    let at = |x: [f64; 3]| Arguments::new().with("x", x).with("y", 1.0);
    let before = f.sparse_jacobian(at([-1.0, 0.01, 100.0])).expect("derivatives");
    for last in [100.0, 0.0] {
        let found = f.sparse_jacobian_again(at([1.0, 0.01, last]), &before).expect("derivatives");
        assert_eq!(found.dense(), [[3.0, 0.02, 1.0 / last, 0.0], [0.0, 0.0, 0.0, 1.0]]);
    }
}

#[test]
fn matrices_may_have_no_numbers() {
    let text = "[Differentiable] double f(int n) { return 2.0l * n; }";
    let module = Compiler::new().text("f.slang", text).expect("reads");
    let f = module.function("f").expect("compiles");
    let at = Arguments::new().with("n", 3);
    assert_eq!(f.jacobian(&at).expect("derivatives").rows(), [[0.0; 0]]);
    let sparse = f.sparse_jacobian(&at).expect("derivatives");
    assert_eq!((sparse.starts(), sparse.values()), (&[0, 0][..], &[][..]));
    assert_eq!(f.sparse_jacobian_again(&at, &sparse).expect("derivatives"), sparse);
}

#[test]
fn another_path_has_another_pattern() {
    let text = "
        [Differentiable] double[3] f(double x[3])
        {
            double y[3] = x;
            if (x[0] > 0) y[1] = x[0] * x[2];
            return y;
        }
        [Differentiable] double[2] g(double x[2]) { return x; }";
    let module = Compiler::new().text("f.slang", text).expect("reads");
    let f = module.function("f").expect("compiles");
    let first = f.sparse_jacobian([("x", [-1.0, 2.0, 3.0])]).expect("derivatives");
    assert_eq!(first.columns(), [0, 1, 2]);
    let other = f.sparse_jacobian_again([("x", [1.0, 2.0, 3.0])], &first).expect("derivatives");
    assert_eq!(other.dense(), [[1.0, 0.0, 0.0], [3.0, 0.0, 1.0], [0.0, 0.0, 1.0]]);
    let short = module.function("g").expect("compiles").sparse_jacobian_again([("x", [0.0; 2])], &first);
    assert!(short.expect_err("is refused").to_string().contains("not one of `g`"));
}

/// However small the new numbers are beside others of their row.
#[test]
fn another_pattern_is_seen_beside_large_numbers() {
    for (number, large) in [("double", 1e9), ("float", 1e4), ("half", 10.0)] {
        let text = format!(
            "[Differentiable] {number}[6] f({number} x[6])
            {{
                {number} r[6];
                for (int i = 0; i < 6; i++)
                {{
                    r[i] = {number}({large}) * x[i] * x[i] * x[i];
                    if (i > 0) r[i] += x[i - 1] * x[i];
                    if (x[i] > 5) r[i] += x[(i + 3) % 6] * x[(i + 3) % 6];
                }}
                return r;
            }}
            [Differentiable] {number} sum({number} x[6])
            {{
                {number}[6] r = f(x);
                {number} s = 0;
                for (int i = 0; i < 6; i++) s += r[i];
                return s;
            }}"
        );
        let module = Compiler::new().text("f.slang", &text).expect("reads");
        let (f, sum) = (module.function("f").expect("compiles"), module.function("sum").expect("compiles"));
        let ones = || [("x", [1.0; 6])];
        let first = f.sparse_jacobian(ones()).expect("derivatives");
        let second = sum.sparse_hessian(ones(), "result", Recovery::Direct).expect("derivatives");
        for k in 0..6 {
            let mut x = [1.0; 6];
            x[k] = 6.0;
            let at = [("x", x)];
            let found = f.sparse_jacobian_again(at, &first).expect("derivatives");
            assert_eq!(found, f.sparse_jacobian(at).expect("derivatives"), "{number}, {k}");
            let found = sum.sparse_hessian_again(at, "result", &second).expect("derivatives");
            let expected = sum.sparse_hessian(at, "result", Recovery::Direct).expect("derivatives");
            assert_eq!(found, expected, "{number}, {k}");
        }
    }
}
