//! Accesses whose addresses are anywhere: gathers and scatters.
//!
//! Where one is expected, an intrinsic of LLVM does it. Where it is rare, a helper does, since sixteen branches for each
//! such access would take LLVM longer than all else. The helper touches no more than the access would, and what is handed
//! over to it, so the call has the same note of what it cannot overlap with.

use native::runtime::Helper;

use super::Emitter;
use super::local::{Class, Place, memory_el};
use crate::text::{El, Val};

/// Memory of which nothing is known but that the host, or a helper, sees it.
const ANY_BUFFER: Class = Class::Buffer { global: None, constant: false };

impl Emitter<'_, '_> {
    pub(super) fn gather(&mut self, e: El, at: Val, class: Class, mask: Option<Val>) -> Val {
        let mask = self.w.spread(mask.unwrap_or(Val::bool(true)));
        let (ty, name, n) = (self.w.ty(e, true), self.w.mangle(e, true), self.lanes);
        let full = format!("llvm.masked.gather.{name}.v{n}p0");
        self.w.declare(format!("declare {ty} @{full}(<{n} x ptr>, i32, <{n} x i1>, {ty})"));
        let out = self.w.reg(e, true);
        let (o, a, m) = (self.w.operand(out, true), self.w.typed(at), self.w.typed(mask));
        let note = self.call_note(class);
        let align = e.bytes();
        self.w
            .line(format_args!("{o} = call {ty} @{full}({a}, i32 {align}, {m}, {ty} zeroinitializer){note}"));
        out
    }

    pub(super) fn scatter(&mut self, x: Val, at: Val, class: Class, mask: Val) {
        let (x, mask) = (self.w.spread(x), self.w.spread(mask));
        let (ty, name, n) = (self.w.ty(x.el, true), self.w.mangle(x.el, true), self.lanes);
        let full = format!("llvm.masked.scatter.{name}.v{n}p0");
        self.w.declare(format!("declare void @{full}({ty}, <{n} x ptr>, i32, <{n} x i1>)"));
        let (x_text, a, m) = (self.w.typed(x), self.w.typed(at), self.w.typed(mask));
        let note = self.call_note(class);
        let align = x.el.bytes();
        self.w.line(format_args!("call void @{full}({x_text}, {a}, i32 {align}, {m}){note}"));
    }

    /// A gather where it is rare: by a helper, of numbers at so many bytes from a place.
    pub(super) fn rare_gather(&mut self, e: El, place: Place, at: u64) -> Val {
        let mem = memory_el(e);
        let numbers = self.rare(Helper::Gather, Helper::GatherElements, place, self.mask, at, mem);
        let note = self.note(ANY_BUFFER, mem.bytes());
        let x = self.w.load(mem, true, numbers, &note);
        self.number_of(e, x, place.class)
    }

    /// A scatter where it is rare: by a helper, of numbers to so many bytes from a place.
    pub(super) fn rare_scatter(&mut self, x: Val, place: Place, at: u64) {
        let x = if x.el == El::I1 { self.w.cast("zext", x, El::I8) } else { x };
        let x = self.w.spread(x);
        let numbers = self.handed().1;
        let note = self.note(ANY_BUFFER, x.el.bytes());
        self.w.store(x, numbers, &note);
        self.rare(Helper::Scatter, Helper::ScatterElements, place, place.mask, at, x.el);
    }

    /// Where helpers find the lanes' addresses or the numbers of elements, and where numbers are.
    fn handed(&mut self) -> (Val, Val) {
        let room = 8 * u64::from(native::MOST_LANES);
        let w = &mut self.w;
        *self.handed.get_or_insert_with(|| (w.alloca(room, 64), w.alloca(room, 64)))
    }

    /// Calls a helper that touches no more than an access at the place does, and what is handed over: one that takes
    /// addresses, or one that takes the numbers of elements, if the place is known so. Gives where numbers are.
    fn rare(
        &mut self,
        any: Helper,
        of_elements: Helper,
        place: Place,
        mask: Option<Val>,
        at: u64,
        el: El,
    ) -> Val {
        let (places, numbers) = self.handed();
        let bytes = Val::i64(el.bytes() as i64);
        let by = Val::i64(at as i64);
        let all = Val::bool(true);
        let (helper, args) = match place.elements {
            Some(elements) => {
                let note = self.note(ANY_BUFFER, 4);
                self.w.store(elements.numbers, places, &note);
                let bits = self.mask_bits(mask.unwrap_or(all));
                let bits = self.w.select(elements.certain, bits, Val::i32(0));
                let first = self.w.offset(elements.first, by);
                let (size, signed) = (Val::i64(elements.size as i64), Val::i32(i64::from(elements.signed)));
                (of_elements, vec![places, numbers, bits, bytes, first, elements.count, size, signed])
            }
            None => {
                let at = self.w.offset(place.addr, by);
                let at = self.w.spread(at);
                let note = self.note(ANY_BUFFER, 8);
                self.w.store(at, places, &note);
                let mask = self.both(place.inside, mask);
                (any, vec![places, numbers, self.mask_bits(mask.unwrap_or(all)), bytes])
            }
        };
        let (types, _) = helper.signature();
        debug_assert_eq!(types.len(), args.len());
        let types: Vec<&str> = args.iter().map(|a| a.el.name()).collect();
        let (name, note) = (helper.name(), self.call_note(place.class));
        let about = "cold nounwind willreturn nofree nosync";
        self.w.declare(format!("declare void @{name}({}) {about}", types.join(", ")));
        let list: Vec<String> = args.iter().map(|&a| self.w.typed(a)).collect();
        self.w.line(format_args!("call void @{name}({}){note}", list.join(", ")));
        numbers
    }

    /// The metadata that follows an access that is a call.
    pub(super) fn call_note(&self, class: Class) -> String {
        let note = self.note(class, 1);
        note.trim_start_matches(", align 1").replace(", !invariant.load !4", "")
    }
}
