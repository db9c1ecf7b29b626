//! Emits the stack operations of the JIT's runtime as LLVM's text, for code that runs without that runtime:
//! growing, copying and adding stacks of any shape.
//!
//! Shapes nest as stacks do. Each shape gets functions of its own, so that no function calls itself. The code
//! names a shape by the address of `@rt_shape_K`: the functions that it calls compare that address with each
//! shape's, and LLVM folds the comparisons at compile time.

use std::fmt::Write as _;

use ir::Scalar;
use native::types::Shape;

use super::{MEMORY, el};
use crate::Text;

/// The number of elements that a stack may grow to.
const MOST: u64 = 1 << 28;

/// The functions for the shapes that a text names.
pub(super) fn functions(text: &Text) -> String {
    if text.tables.shapes().next().is_none() {
        return String::new();
    }
    let mut all = "declare i64 @llvm.umax.i64(i64, i64)\n".to_string();
    let mut shapes: Vec<&Shape> = Vec::new();
    let named: Vec<usize> = text.tables.shapes().map(|shape| number(&mut shapes, shape)).collect();
    for (k, shape) in shapes.iter().enumerate() {
        let inner = match shape {
            Shape::Stack(inner) => shapes.iter().position(|s| *s == &**inner),
            Shape::Flat(..) | Shape::Opaque(_) => None,
        };
        grow(&mut all, k, shape);
        copy(&mut all, k, shape.size(), inner);
        add(&mut all, k, shape, inner);
    }
    for k in 0..named.len() {
        let _ = writeln!(all, "@rt_shape_{k} = internal constant i8 {}", k % 128);
    }
    for (result, name, of_shape, params) in [
        ("ptr", "rt_stack_clone", "rt_copy_stack_", "ptr %ctx, ptr %a"),
        ("void", "rt_stack_add", "rt_add_stack_", "ptr %ctx, ptr %a, ptr %b"),
        ("void", "rt_cell_grow", "rt_grow_for_", "ptr %ctx, ptr %a, i64 %b"),
    ] {
        let _ = writeln!(
            all,
            "define internal {result} @{name}({params}, ptr %shape, ptr %empty) alwaysinline {{"
        );
        for (k, number) in named.iter().enumerate() {
            let (to, ret) = if result == "ptr" {
                (format!("%value.{k} = "), format!("ptr %value.{k}"))
            } else {
                (String::new(), "void".into())
            };
            let _ = write!(
                all,
                "  %is.{k} = icmp eq ptr %shape, @rt_shape_{k}\n  br i1 %is.{k}, label %yes.{k}, label %no.{k}\n\
                 yes.{k}:\n  {to}call {result} @{of_shape}{number}({params})\n  ret {ret}\nno.{k}:\n"
            );
        }
        let _ = writeln!(all, "  ret {}\n}}", if result == "ptr" { "ptr @rt_empty" } else { "void" });
    }
    all
}

/// The number of a shape; shapes nested in it are numbered first.
fn number<'s>(shapes: &mut Vec<&'s Shape>, shape: &'s Shape) -> usize {
    if let Shape::Stack(inner) = shape {
        number(shapes, inner);
    }
    shapes.iter().position(|s| *s == shape).unwrap_or_else(|| {
        shapes.push(shape);
        shapes.len() - 1
    })
}

/// Emits the function that grows the stack in a cell to a given length, where new elements are absent
/// differentials, zeros if they are not floats, or empty stacks; and the function that does so for an index.
fn grow(all: &mut String, k: usize, shape: &Shape) {
    let size = shape.size();
    let _ = write!(
        all,
        "define internal void @rt_grow_for_{k}(ptr %ctx, ptr %loc, i64 %index) {{\n  \
         %before = icmp slt i64 %index, 0\n  br i1 %before, label %done, label %look\n\
         look:\n  %beyond = icmp uge i64 %index, {MOST}\n  br i1 %beyond, label %fail, label %go\n\
         fail:\n  call void @rt_fail(ptr %ctx, i32 {fail})\n  unreachable\n\
         go:\n  %len = add i64 %index, 1\n  call void @rt_grow_{k}(ptr %ctx, ptr %loc, i64 %len)\n  br label %done\n\
         done:\n  ret void\n}}\n\
         define internal void @rt_grow_{k}(ptr %ctx, ptr %loc, i64 %len) {{\nbegin:\n  \
         %held = load ptr, ptr %loc\n  %is.empty = icmp eq ptr %held, @rt_empty\n  \
         br i1 %is.empty, label %make, label %have\n\
         make:\n  %made = call ptr @rt_stack_header(ptr %ctx, ptr @rt_zero, i64 0, i64 0)\n  \
         store ptr %made, ptr %loc\n  br label %have\n\
         have:\n  %header = phi ptr [ %held, %begin ], [ %made, %make ]\n  \
         %len.at = getelementptr i8, ptr %header, i64 8\n  %old = load i64, ptr %len.at\n  \
         %short = icmp ult i64 %old, %len\n  br i1 %short, label %more, label %done\n\
         more:\n  %cap.at = getelementptr i8, ptr %header, i64 16\n  %cap = load i64, ptr %cap.at\n  \
         %full = icmp ugt i64 %len, %cap\n  br i1 %full, label %move, label %fill\n\
         move:\n  %twice = shl i64 %cap, 1\n  %m0 = call i64 @llvm.umax.i64(i64 %len, i64 %twice)\n  \
         %room = call i64 @llvm.umax.i64(i64 %m0, i64 4)\n  \
         %to = call ptr @rt_elements(ptr %ctx, i64 %room, i64 {size})\n  %from = load ptr, ptr %header\n  \
         %used = mul i64 %old, {size}\n  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %used, i1 false)\n  \
         store ptr %to, ptr %header\n  store i64 %room, ptr %cap.at\n  br label %fill\n\
         fill:\n  %ptr = load ptr, ptr %header\n",
        fail = MEMORY - 1,
    );
    let _ = match shape {
        Shape::Stack(_) => write!(
            all,
            "  br label %next\nnext:\n  %k = phi i64 [ %old, %fill ], [ %k.next, %next ]\n  \
             %at = getelementptr ptr, ptr %ptr, i64 %k\n  store ptr @rt_empty, ptr %at\n  \
             %k.next = add i64 %k, 1\n  %again = icmp ult i64 %k.next, %len\n  \
             br i1 %again, label %next, label %set\nset:\n"
        ),
        Shape::Flat(s, n) if s.is_float() => write!(
            all,
            "  %first = mul i64 %old, {n}\n  %last = mul i64 %len, {n}\n  br label %next\n\
             next:\n  %k = phi i64 [ %first, %fill ], [ %k.next, %next ]\n  \
             %at = getelementptr i{bits}, ptr %ptr, i64 %k\n  store i{bits} {absent}, ptr %at\n  \
             %k.next = add i64 %k, 1\n  %again = icmp ult i64 %k.next, %last\n  \
             br i1 %again, label %next, label %set\nset:\n",
            bits = s.bits(),
            absent = ir::scalar::absent(*s)
        ),
        Shape::Flat(..) | Shape::Opaque(_) => write!(
            all,
            "  %skip = mul i64 %old, {size}\n  %at = getelementptr i8, ptr %ptr, i64 %skip\n  \
             %new = sub i64 %len, %old\n  %bytes = mul i64 %new, {size}\n  \
             call void @llvm.memset.p0.i64(ptr %at, i8 0, i64 %bytes, i1 false)\n"
        ),
    };
    let _ = write!(all, "  store i64 %len, ptr %len.at\n  br label %done\ndone:\n  ret void\n}}\n");
}

/// Emits the function that makes a deep copy of a stack.
fn copy(all: &mut String, k: usize, size: u64, inner: Option<usize>) {
    let _ = write!(
        all,
        "define internal ptr @rt_copy_stack_{k}(ptr %ctx, ptr %a) {{\n  %ptr = load ptr, ptr %a\n  \
         %len.at = getelementptr i8, ptr %a, i64 8\n  %len = load i64, ptr %len.at\n  \
         %none = icmp eq i64 %len, 0\n  br i1 %none, label %empty, label %some\n\
         empty:\n  ret ptr @rt_empty\n\
         some:\n  %to = call ptr @rt_elements(ptr %ctx, i64 %len, i64 {size})\n"
    );
    let _ = match inner {
        Some(inner) => write!(
            all,
            "  br label %next\nnext:\n  %k = phi i64 [ 0, %some ], [ %k.next, %next ]\n  \
             %from.at = getelementptr ptr, ptr %ptr, i64 %k\n  %part = load ptr, ptr %from.at\n  \
             %own = call ptr @rt_copy_stack_{inner}(ptr %ctx, ptr %part)\n  \
             %to.at = getelementptr ptr, ptr %to, i64 %k\n  store ptr %own, ptr %to.at\n  \
             %k.next = add i64 %k, 1\n  %again = icmp ult i64 %k.next, %len\n  \
             br i1 %again, label %next, label %done\ndone:\n"
        ),
        None => write!(
            all,
            "  %bytes = mul i64 %len, {size}\n  \
             call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %ptr, i64 %bytes, i1 false)\n"
        ),
    };
    let _ = write!(
        all,
        "  %header = call ptr @rt_stack_header(ptr %ctx, ptr %to, i64 %len, i64 %len)\n  ret ptr %header\n}}\n"
    );
}

/// Emits the function that adds a stack to the stack in a cell, which grows as needed.
fn add(all: &mut String, k: usize, shape: &Shape, inner: Option<usize>) {
    let _ = write!(
        all,
        "define internal void @rt_add_stack_{k}(ptr %ctx, ptr %a, ptr %b) {{\n  %ptr = load ptr, ptr %b\n  \
         %len.at = getelementptr i8, ptr %b, i64 8\n  %len = load i64, ptr %len.at\n  \
         %none = icmp eq i64 %len, 0\n  br i1 %none, label %done, label %some\n\
         some:\n  call void @rt_grow_{k}(ptr %ctx, ptr %a, i64 %len)\n  \
         %header = load ptr, ptr %a\n  %to = load ptr, ptr %header\n"
    );
    let loop_ = |n: &str, body: &str| {
        format!(
            "  br label %next\nnext:\n  %k = phi i64 [ 0, %some ], [ %k.next, %next ]\n{body}  \
             %k.next = add i64 %k, 1\n  %again = icmp ult i64 %k.next, {n}\n  \
             br i1 %again, label %next, label %done\n"
        )
    };
    match (shape, inner) {
        (Shape::Stack(_), Some(inner)) => {
            let body = format!(
                "  %from.at = getelementptr ptr, ptr %ptr, i64 %k\n  %part = load ptr, ptr %from.at\n  \
                 %to.at = getelementptr ptr, ptr %to, i64 %k\n  \
                 call void @rt_add_stack_{inner}(ptr %ctx, ptr %to.at, ptr %part)\n"
            );
            *all += &loop_("%len", &body);
        }
        (Shape::Flat(s, n), _) if *n > 0 => {
            let (ty, op) = match s {
                Scalar::F16 => ("half", "fadd"),
                s if s.is_float() => (el(*s), "fadd"),
                s => (el(*s), "add"),
            };
            let align = s.bytes();
            let body = format!(
                "  %from.at = getelementptr {ty}, ptr %ptr, i64 %k\n  %x = load {ty}, ptr %from.at, align {align}\n  \
                 %to.at = getelementptr {ty}, ptr %to, i64 %k\n  %y = load {ty}, ptr %to.at, align {align}\n  \
                 %sum = {op} {ty} %y, %x\n  store {ty} %sum, ptr %to.at, align {align}\n"
            );
            let _ = writeln!(all, "  %n = mul i64 %len, {n}");
            *all += &loop_("%n", &body);
        }
        (Shape::Flat(..) | Shape::Opaque(_) | Shape::Stack(_), _) => *all += "  br label %done\n",
    }
    *all += "done:\n  ret void\n}\n";
}
