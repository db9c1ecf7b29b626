//! The runtime, as the beginning of a module.
//!
//! The text (`memory.wat` and the other parts) is assembled when the crate is built. Its sections are copied into each new module: its functions come
//! first, after those that the host provides, and its globals get the values that fit the program. What it exports by a
//! name that begins with a letter of its own (`buffer`, `reset`, `error` …) is the interface of the module; the other
//! names are for the compiler.

use std::convert::Infallible;

use rustc_hash::FxHashMap;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{CodeSection, ConstExpr, ExportKind, FunctionSection, GlobalSection, TypeSection};
use wasmparser::{ExternalKind, Parser, Payload};

static RUNTIME: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runtime.wasm"));

/// The names that hosts use.
const INTERFACE: [&str; 9] =
    ["room", "buffer", "pointees", "pointee", "reset", "error", "detail", "heap", "most_pages"];

/// The sections of a module that begins with the runtime.
pub(crate) struct Runtime {
    pub(crate) types: TypeSection,
    /// The type of each function.
    pub(crate) functions: FunctionSection,
    pub(crate) globals: GlobalSection,
    pub(crate) code: CodeSection,
    /// The numbers of the functions, by name.
    pub(crate) names: FxHashMap<String, u32>,
    /// The interface for hosts.
    pub(crate) exports: Vec<(&'static str, ExportKind, u32)>,
}

/// Numbers functions after those of the host.
struct After(u32);

impl Reencode for After {
    type Error = Infallible;

    fn function_index(&mut self, func: u32) -> Result<u32, Error<Infallible>> {
        Ok(func + self.0)
    }
}

impl Runtime {
    /// The runtime after `imported` functions of the host, with these values of its globals.
    pub(crate) fn new(imported: u32, values: &[(&str, i32)]) -> Result<Runtime, Error<Infallible>> {
        let mut after = After(imported);
        let mut made = Runtime {
            types: TypeSection::new(),
            functions: FunctionSection::new(),
            globals: GlobalSection::new(),
            code: CodeSection::new(),
            names: FxHashMap::default(),
            exports: Vec::new(),
        };
        let mut globals = Vec::new();
        let mut names: FxHashMap<u32, &str> = FxHashMap::default();
        for payload in Parser::new(0).parse_all(RUNTIME) {
            match payload? {
                Payload::TypeSection(section) => after.parse_type_section(&mut made.types, section)?,
                Payload::FunctionSection(section) => {
                    after.parse_function_section(&mut made.functions, section)?;
                }
                Payload::GlobalSection(section) => {
                    globals = section.into_iter().collect::<Result<Vec<_>, _>>()?;
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        let (kind, index) = match export.kind {
                            ExternalKind::Func => (ExportKind::Func, export.index + imported),
                            _ => (ExportKind::Global, export.index),
                        };
                        match kind {
                            ExportKind::Func => drop(made.names.insert(export.name.to_string(), index)),
                            _ => drop(names.insert(index, export.name)),
                        }
                        if let Some(name) = INTERFACE.iter().find(|name| **name == export.name) {
                            made.exports.push((name, kind, index));
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => after.parse_function_body(&mut made.code, body)?,
                _ => {}
            }
        }
        for (k, global) in globals.into_iter().enumerate() {
            let name = names.get(&(k as u32)).copied();
            match values.iter().find(|(of, _)| Some(*of) == name) {
                Some(&(_, value)) => {
                    let ty = after.global_type(global.ty)?;
                    made.globals.global(ty, &ConstExpr::i32_const(value));
                }
                None => after.parse_global(&mut made.globals, global)?,
            }
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use half::f16;
    use test_support::Random;
    use wasmi::{Engine, Instance, Linker, Module, Store, V128, Val};

    use super::RUNTIME;

    /// The runtime by itself.
    struct Machine(Store<()>, Instance);

    impl Machine {
        fn new() -> Machine {
            let engine = Engine::default();
            let module = Module::new(&engine, RUNTIME).expect("a valid module");
            let mut store = Store::new(&engine, ());
            let instance =
                Linker::new(&engine).instantiate_and_start(&mut store, &module).expect("an instance");
            Machine(store, instance)
        }

        fn call(&mut self, name: &str, args: &[Val]) -> Val {
            let function = self.1.get_func(&self.0, name).expect("a function");
            let mut results = [Val::I32(0)];
            function.call(&mut self.0, args, &mut results).expect("no trap");
            results[0].clone()
        }
    }

    /// Numbers of all sizes: bits at random, with exponents that are close to each other, and the ends of the range.
    struct Numbers(Random);

    impl Numbers {
        fn bits(&mut self) -> u64 {
            self.0.bits()
        }

        fn double(&mut self) -> f64 {
            let bits = self.bits();
            let near = |exponent: u64| f64::from_bits(bits & !(0x7ff << 52) | exponent << 52);
            match self.bits() % 8 {
                0 => f64::from_bits(bits),
                1 => near(bits % 64),
                2 => near(2046 - bits % 64),
                3 => near(0),
                4 => near(1023 - 540 + bits % 64),
                5 => [0.0, -0.0, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, f64::MAX, 1.0]
                    [(bits % 7) as usize],
                _ => near(1000 + bits % 64),
            }
        }

        fn single(&mut self) -> f32 {
            let bits = self.bits() as u32;
            let near = |exponent: u32| f32::from_bits(bits & !(0xff << 23) | exponent << 23);
            match self.bits() % 6 {
                0 => f32::from_bits(bits),
                1 => near(bits % 30),
                2 => near(254 - bits % 30),
                3 => near(0),
                4 => [0.0, -0.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::MAX, 1.0]
                    [(bits % 7) as usize],
                _ => near(110 + bits % 30),
            }
        }
    }

    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }

    #[test]
    fn fused_multiply_adds_of_doubles_round_once() {
        let (mut machine, mut rng) = (Machine::new(), Numbers(Random(1)));
        for _ in 0..200_000 {
            let [a, b, mut c] = [rng.double(), rng.double(), rng.double()];
            // Often a summand that nearly cancels the product.
            if rng.bits() % 3 == 0 {
                c = f64::from_bits((-(a * b)).to_bits() ^ (rng.bits() & 0xfff));
            }
            let args = [a, b, c].map(|x| Val::F64(x.into()));
            let found = f64::from(machine.call("fma_f64", &args).f64().expect("a double"));
            let wanted = a.mul_add(b, c);
            assert!(same(found, wanted), "{a:e} * {b:e} + {c:e} = {wanted:e}, not {found:e}");
        }
    }

    #[test]
    fn fused_multiply_adds_of_floats_round_once() {
        let (mut machine, mut rng) = (Machine::new(), Numbers(Random(2)));
        for _ in 0..50_000 {
            let lanes: [[f32; 3]; 4] = std::array::from_fn(|_| {
                let [a, b, mut c] = [rng.single(), rng.single(), rng.single()];
                if rng.bits() % 3 == 0 {
                    c = f32::from_bits((-(a * b)).to_bits() ^ (rng.bits() & 0xff) as u32);
                }
                [a, b, c]
            });
            let vector = |k: usize| {
                let bits = |lane: usize| u128::from(lanes[lane][k].to_bits()) << (32 * lane);
                Val::V128(V128::from((0..4).map(bits).sum::<u128>()))
            };
            let found = machine.call("fma_f32x4", &[vector(0), vector(1), vector(2)]);
            let Val::V128(found) = found else { panic!("a vector") };
            let found = found.as_u128();
            for (lane, [a, b, c]) in lanes.into_iter().enumerate() {
                let wanted = a.mul_add(b, c);
                let one = machine.call("fma_f32", &[a, b, c].map(|x| Val::F32(x.into())));
                for found in
                    [f32::from_bits((found >> (32 * lane)) as u32), f32::from(one.f32().expect("a float"))]
                {
                    assert!(
                        same(found.into(), wanted.into()),
                        "{a:e} * {b:e} + {c:e} = {wanted:e}, not {found:e}"
                    );
                }
            }
        }
    }

    #[test]
    fn remainders_are_exact() {
        let (mut machine, mut rng) = (Machine::new(), Numbers(Random(3)));
        for _ in 0..100_000 {
            let [a, b] = [rng.double(), rng.double()];
            let found = machine.call("rt_rem_double", &[a, b].map(|x| Val::F64(x.into())));
            let found = f64::from(found.f64().expect("a double"));
            assert!(same(found, a % b), "{a:e} % {b:e} = {:e}, not {found:e}", a % b);
            let [a, b] = [rng.single(), rng.single()];
            let found = machine.call("rt_rem_single", &[a, b].map(|x| Val::F32(x.into())));
            let found = f32::from(found.f32().expect("a float"));
            assert!(same(found.into(), (a % b).into()), "{a:e} % {b:e} = {:e}, not {found:e}", a % b);
        }
    }

    #[test]
    fn halves_are_converted_as_elsewhere() {
        let (mut machine, mut rng) = (Machine::new(), Numbers(Random(4)));
        for bits in 0..=u16::MAX {
            let found = machine.call("rt_half_to_single", &[Val::I32(bits.into())]);
            let found = f32::from(found.f32().expect("a float"));
            assert!(same(found.into(), f16::from_bits(bits).to_f64()), "{bits:x}: {found}");
        }
        for k in 0..200_000 {
            // Half of the numbers are near the range of halves.
            let x =
                if k % 2 == 0 { rng.double() } else { (rng.bits() >> 11) as f64 * 2f64.powi(-(37 + k % 32)) };
            let found = machine.call("rt_double_to_half", &[Val::F64(x.into())]).i32().expect("an integer");
            let wanted = ir::scalar::from_f64(ir::Scalar::F16, x);
            let (found, wanted) = (f16::from_bits(found as u16), f16::from_bits(wanted as u16));
            assert!(
                found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan(),
                "{x:e}: {found}"
            );
        }
    }
}
