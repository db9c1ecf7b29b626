;; What compiled code calls: memory, stacks, and the operations that WebAssembly has no instruction for.
;;
;; Addresses are 64-bit integers, as in all code that `native` emits; the context and its fields are those of
;; `native::runtime`. `runtime.rs` sets the globals that say where things are, and takes exports as the names of functions.
;;
;; A program that fails sets `error` and traps.
(module
  (memory 1)
  ;; The end of the stack that is free, for memory of functions.
  (global $sp (export "sp") (mut i32) (i32.const 0))
  ;; The number of the error plus 1; and the address of what a message needs.
  (global $error (export "error") (mut i32) (i32.const 0))
  (global $detail (export "detail") (mut i32) (i32.const 0))
  ;; The end of the memory of buffers.
  (global $heap (export "heap") (mut i32) (i32.const 0))
  ;; The largest number of pages of memory.
  (global $most (export "most_pages") (mut i32) (i32.const 65536))
  ;; The addresses of the context's fields.
  (global $top (export "at_top") i32 (i32.const 0))
  (global $end (export "at_end") i32 (i32.const 0))
  (global $base (export "at_base") i32 (i32.const 0))
  (global $context_globals (export "at_context_globals") i32 (i32.const 0))
  (global $handles (export "at_handles") i32 (i32.const 0))
  (global $handle_count (export "at_handle_count") i32 (i32.const 0))
  ;; The descriptors of globals and of what pointers in memory refer to: an address and a count, in eight bytes each. The
  ;; first of these addresses is that of the table for globals alone.
  (global $own_globals (export "at_globals") i32 (i32.const 0))
  (global $globals (export "at_globals_now") (mut i32) (i32.const 0))
  ;; The size of an element of each global, and the number of elements that there must be, in four bytes each.
  (global $sizes (export "at_sizes") i32 (i32.const 0))
  (global $count (export "global_count") i32 (i32.const 0))
  (global $zero (export "at_zero") i32 (i32.const 0))
  (global $first_heap (export "first_heap") i32 (i32.const 0))
  ;; Room for the addresses of lanes.
  (global $places (export "at_places") i32 (i32.const 0))

  ;; ---- errors and memory

  (func $fail (export "rt_fail") (param $ctx i64) (param $site i32)
    (global.set $error (i32.add (local.get $site) (i32.const 1)))
    (unreachable))

  (func (export "rt_not_finite") (param $ctx i64) (param $site i32) (param $words i64)
    (global.set $detail (i32.wrap_i64 (local.get $words)))
    (call $fail (local.get $ctx) (local.get $site)))

  (func $no_memory
    (global.set $error (i32.const 0x0fffffff))
    (unreachable))

  ;; Makes memory end at or after an address.
  (func $reach (param $to i64)
    (local $have i32) (local $need i32) (local $more i32)
    (local.set $have (memory.size))
    (if (i64.gt_u (local.get $to) (i64.const 0xffffffff)) (then (call $no_memory)))
    (local.set $need (i32.wrap_i64 (i64.shr_u (i64.add (local.get $to) (i64.const 0xffff)) (i64.const 16))))
    (if (i32.le_u (local.get $need) (local.get $have)) (then (return)))
    (if (i32.gt_u (local.get $need) (global.get $most)) (then (call $no_memory)))
    ;; Half as much again, if that is allowed.
    (local.set $more (i32.add (local.get $have) (i32.shr_u (local.get $have) (i32.const 1))))
    (if (i32.and (i32.gt_u (local.get $more) (local.get $need)) (i32.le_u (local.get $more) (global.get $most)))
      (then
        (if (i32.ne (memory.grow (i32.sub (local.get $more) (local.get $have))) (i32.const -1)) (then (return)))))
    (if (i32.eq (memory.grow (i32.sub (local.get $need) (local.get $have))) (i32.const -1))
      (then (call $no_memory))))

  ;; Memory of elements, filled with zeros, in front of which there is room for as many as `least`; the descriptor of this
  ;; number refers to it from now on.
  (func $bind (param $number i32) (param $n i32) (param $size i32) (param $least i32) (result i32)
    (local $at i32) (local $desc i32) (local $bytes i64)
    (if (i32.gt_u (local.get $n) (local.get $least)) (then (local.set $least (local.get $n))))
    (local.set $bytes (i64.mul (i64.extend_i32_u (local.get $least)) (i64.extend_i32_u (local.get $size))))
    (local.set $at (call $take (local.get $bytes)))
    (local.set $desc (i32.add (global.get $globals) (i32.shl (local.get $number) (i32.const 4))))
    (i64.store (local.get $desc) (i64.extend_i32_u
      (select (local.get $at) (global.get $zero) (local.get $least))))
    (i64.store offset=8 (local.get $desc) (i64.extend_i32_u (local.get $n)))
    (local.get $at))

  ;; Memory for the host, filled with zeros.
  (func $take (param $bytes i64) (result i32)
    (local $at i32)
    (local.set $at (global.get $heap))
    (call $reach (i64.add (i64.extend_i32_u (local.get $at)) (i64.add (local.get $bytes) (i64.const 128))))
    (memory.fill (local.get $at) (i32.const 0) (i32.wrap_i64 (local.get $bytes)))
    (global.set $heap
      (i32.and (i32.add (i32.add (local.get $at) (i32.wrap_i64 (local.get $bytes))) (i32.const 79)) (i32.const -64)))
    (local.get $at))

  (func (export "room") (param $bytes i32) (result i32)
    (call $take (i64.extend_i32_u (local.get $bytes))))

  (func (export "buffer") (param $global i32) (param $n i32) (result i32)
    (local $sizes i32)
    (if (i32.ge_u (local.get $global) (global.get $count)) (then (unreachable)))
    (local.set $sizes (i32.add (global.get $sizes) (i32.shl (local.get $global) (i32.const 3))))
    (call $bind (local.get $global) (local.get $n) (i32.load (local.get $sizes))
      (i32.load offset=4 (local.get $sizes))))

  ;; Makes descriptors for what pointers in memory refer to, without memory.
  (func (export "pointees") (param $n i32)
    (local $at i32) (local $all i32)
    (local.set $all (i32.add (global.get $count) (local.get $n)))
    (local.set $at (call $take (i64.shl (i64.extend_i32_u (local.get $all)) (i64.const 4))))
    (memory.copy (local.get $at) (global.get $globals) (i32.shl (global.get $count) (i32.const 4)))
    (call $describe (local.get $at) (local.get $all))
    (call $forget (global.get $count) (local.get $all)))

  ;; Memory for elements of a size that pointers in memory refer to, by the number of the descriptor.
  (func (export "pointee") (param $number i32) (param $size i32) (param $n i32) (result i32)
    (if (i64.ge_u (i64.extend_i32_u (local.get $number)) (i64.load (global.get $handle_count))) (then (unreachable)))
    (call $bind (local.get $number) (local.get $n) (local.get $size) (i32.const 0)))

  (func $describe (param $at i32) (param $all i32)
    (global.set $globals (local.get $at))
    (i64.store (global.get $context_globals) (i64.extend_i32_u (local.get $at)))
    (i64.store (global.get $handles) (i64.extend_i32_u (local.get $at)))
    (i64.store (global.get $handle_count) (i64.extend_i32_u (local.get $all))))

  ;; Lets descriptors refer to no elements.
  (func $forget (param $from i32) (param $to i32)
    (local $desc i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $from) (local.get $to)))
        (local.set $desc (i32.add (global.get $globals) (i32.shl (local.get $from) (i32.const 4))))
        (i64.store (local.get $desc) (i64.extend_i32_u (global.get $zero)))
        (i64.store offset=8 (local.get $desc) (i64.const 0))
        (local.set $from (i32.add (local.get $from) (i32.const 1)))
        (br $next))))

  ;; Frees all buffers.
  (func (export "reset")
    (local $k i32)
    (global.set $heap (global.get $first_heap))
    (call $describe (global.get $own_globals) (global.get $count))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $k) (global.get $count)))
        ;; Memory of threads and groups has no size here.
        (if (i32.load (i32.add (global.get $sizes) (i32.shl (local.get $k) (i32.const 3))))
          (then (call $forget (local.get $k) (i32.add (local.get $k) (i32.const 1)))))
        (local.set $k (i32.add (local.get $k) (i32.const 1)))
        (br $next))))

  ;; Prepares the memory of stacks and large arrays, which begins after the buffers.
  (func (export "begin")
    (global.set $error (i32.const 0))
    (i64.store (global.get $top) (i64.extend_i32_u (global.get $heap)))
    (i64.store (global.get $base) (i64.extend_i32_u (global.get $heap)))
    (i64.store (global.get $end) (i64.shl (i64.extend_i32_u (memory.size)) (i64.const 16))))

  (func $alloc (export "rt_alloc") (param $ctx i64) (param $bytes i64) (result i64)
    (local $at i64)
    (if (i64.gt_u (local.get $bytes) (i64.const 0xffffff00)) (then (call $no_memory)))
    (local.set $bytes (i64.and (i64.add (local.get $bytes) (i64.const 15)) (i64.const -16)))
    (local.set $at (i64.load (global.get $top)))
    (if (i64.ge_u (local.get $bytes) (i64.const 64))
      (then (local.set $at (i64.and (i64.add (local.get $at) (i64.const 63)) (i64.const -64)))))
    (if (i64.gt_u (i64.add (local.get $at) (local.get $bytes)) (i64.load (global.get $end)))
      (then
        (call $reach (i64.add (local.get $at) (local.get $bytes)))
        (i64.store (global.get $end) (i64.shl (i64.extend_i32_u (memory.size)) (i64.const 16)))))
    (i64.store (global.get $top) (i64.add (local.get $at) (local.get $bytes)))
    (local.get $at))

  (func (export "rt_release") (param $ctx i64) (param $mark i64)
    (i64.store (global.get $top)
      (select (local.get $mark) (i64.load (global.get $base))
        (i64.gt_u (local.get $mark) (i64.load (global.get $base))))))

  (func (export "rt_copy") (param $to i64) (param $from i64) (param $n i64)
    (memory.copy (i32.wrap_i64 (local.get $to)) (i32.wrap_i64 (local.get $from)) (i32.wrap_i64 (local.get $n))))

  (func (export "rt_clear") (param $to i64) (param $n i64)
    (memory.fill (i32.wrap_i64 (local.get $to)) (i32.const 0) (i32.wrap_i64 (local.get $n))))

  ;; ---- stacks: an address, a length and a capacity, in eight bytes each

  ;; Memory for elements, but at least for one.
  (func $elements (param $ctx i64) (param $n i64) (param $size i64) (result i64)
    (if (i64.eqz (local.get $n)) (then (local.set $n (i64.const 1))))
    (if (i32.or (i64.gt_u (local.get $n) (i64.const 0xffffffff)) (i64.gt_u (local.get $size) (i64.const 0x7fffffff)))
      (then (call $no_memory)))
    (call $alloc (local.get $ctx) (i64.mul (local.get $n) (local.get $size))))

  (func $header (export "rt_stack_header")
    (param $ctx i64) (param $ptr i64) (param $len i64) (param $cap i64) (result i64)
    (local $at i64)
    (local.set $at (call $alloc (local.get $ctx) (i64.const 24)))
    (i64.store (i32.wrap_i64 (local.get $at)) (local.get $ptr))
    (i64.store offset=8 (i32.wrap_i64 (local.get $at)) (local.get $len))
    (i64.store offset=16 (i32.wrap_i64 (local.get $at)) (local.get $cap))
    (local.get $at))

  (func (export "rt_stack_new") (param $ctx i64) (param $n i64) (param $size i64) (result i64)
    (call $header (local.get $ctx) (call $elements (local.get $ctx) (local.get $n) (local.get $size))
      (local.get $n) (local.get $n)))

  (func (export "rt_stack_room")
    (param $ctx i64) (param $ptr i64) (param $len i64) (param $cap i64) (param $size i64) (result i64)
    (local $to i64)
    (local.set $to (call $elements (local.get $ctx) (local.get $cap) (local.get $size)))
    (memory.copy (i32.wrap_i64 (local.get $to)) (i32.wrap_i64 (local.get $ptr))
      (i32.wrap_i64 (i64.mul (local.get $len) (local.get $size))))
    (local.get $to))

  (func (export "rt_stack_bundle")
    (param $ctx i64) (param $ptrs i64) (param $n i64) (param $len i64) (param $cap i64) (result i64)
    (local $all i64) (local $at i32) (local $from i32)
    (local.set $all (call $elements (local.get $ctx) (local.get $n) (i64.const 24)))
    (local.set $at (i32.wrap_i64 (local.get $all)))
    (local.set $from (i32.wrap_i64 (local.get $ptrs)))
    (block $done
      (loop $next
        (br_if $done (i64.eqz (local.get $n)))
        (i64.store (local.get $at) (i64.load (local.get $from)))
        (i64.store offset=8 (local.get $at) (local.get $len))
        (i64.store offset=16 (local.get $at) (local.get $cap))
        (local.set $at (i32.add (local.get $at) (i32.const 24)))
        (local.set $from (i32.add (local.get $from) (i32.const 8)))
        (local.set $n (i64.sub (local.get $n) (i64.const 1)))
        (br $next)))
    (local.get $all))

  ;; A shape is its kind (0: numbers, 1: bytes, 2: stacks) and the kind of its numbers in four bytes each, then in
  ;; eight bytes each their count, the size of an element, the shape of the elements of a stack, and the bits of a
  ;; number that is absent.

  ;; Fills elements that are new.
  (func $fill (param $ptr i64) (param $from i64) (param $to i64) (param $shape i32) (param $empty i64)
    (local $at i32) (local $last i32) (local $step i32) (local $size i64) (local $absent i64)
    (local.set $size (i64.load offset=16 (local.get $shape)))
    (local.set $at (i32.wrap_i64 (i64.add (local.get $ptr) (i64.mul (local.get $from) (local.get $size)))))
    (local.set $last (i32.wrap_i64 (i64.add (local.get $ptr) (i64.mul (local.get $to) (local.get $size)))))
    (local.set $absent (i64.load offset=32 (local.get $shape)))
    (local.set $step (i32.const 8))
    (if (i32.eq (i32.load (local.get $shape)) (i32.const 2))
      (then (local.set $absent (local.get $empty)))
      (else
        (if (i64.eqz (local.get $absent))
          (then
            (memory.fill (local.get $at) (i32.const 0) (i32.sub (local.get $last) (local.get $at)))
            (return)))
        (local.set $step
          (i32.wrap_i64 (i64.div_u (local.get $size) (i64.load offset=8 (local.get $shape)))))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $last)))
        (if (i32.eq (local.get $step) (i32.const 8))
          (then (i64.store align=1 (local.get $at) (local.get $absent)))
          (else
            (if (i32.eq (local.get $step) (i32.const 4))
              (then (i64.store32 align=1 (local.get $at) (local.get $absent)))
              (else (i64.store16 align=1 (local.get $at) (local.get $absent))))))
        (local.set $at (i32.add (local.get $at) (local.get $step)))
        (br $next))))

  ;; Grows the stack in a cell to a length.
  (func $grow (param $ctx i64) (param $loc i32) (param $len i64) (param $shape i32) (param $empty i64)
    (local $header i32) (local $old i64) (local $cap i64) (local $ptr i64) (local $size i64)
    (if (i64.eq (i64.load (local.get $loc)) (local.get $empty))
      (then
        (i64.store (local.get $loc)
          (call $header (local.get $ctx) (i64.load (i32.wrap_i64 (local.get $empty))) (i64.const 0) (i64.const 0)))))
    (local.set $header (i32.wrap_i64 (i64.load (local.get $loc))))
    (local.set $old (i64.load offset=8 (local.get $header)))
    (if (i64.le_u (local.get $len) (local.get $old)) (then (return)))
    (local.set $size (i64.load offset=16 (local.get $shape)))
    (local.set $cap (i64.load offset=16 (local.get $header)))
    (if (i64.gt_u (local.get $len) (local.get $cap))
      (then
        (local.set $cap (i64.shl (local.get $cap) (i64.const 1)))
        (if (i64.lt_u (local.get $cap) (local.get $len)) (then (local.set $cap (local.get $len))))
        (if (i64.lt_u (local.get $cap) (i64.const 4)) (then (local.set $cap (i64.const 4))))
        (local.set $ptr (call $elements (local.get $ctx) (local.get $cap) (local.get $size)))
        (memory.copy (i32.wrap_i64 (local.get $ptr)) (i32.wrap_i64 (i64.load (local.get $header)))
          (i32.wrap_i64 (i64.mul (local.get $old) (local.get $size))))
        (i64.store (local.get $header) (local.get $ptr))
        (i64.store offset=16 (local.get $header) (local.get $cap))))
    (call $fill (i64.load (local.get $header)) (local.get $old) (local.get $len) (local.get $shape) (local.get $empty))
    (i64.store offset=8 (local.get $header) (local.get $len)))

  ;; Grows the stack in a cell so that it has an element of this number.
  (func (export "rt_cell_grow")
    (param $ctx i64) (param $loc i64) (param $index i64) (param $shape i64) (param $empty i64)
    (if (i64.lt_s (local.get $index) (i64.const 0)) (then (return)))
    (if (i64.ge_u (local.get $index) (i64.const 0x10000000))
      (then
        (global.set $error (i32.const 0x0ffffffe))
        (unreachable)))
    (call $grow (local.get $ctx) (i32.wrap_i64 (local.get $loc)) (i64.add (local.get $index) (i64.const 1))
      (i32.wrap_i64 (local.get $shape)) (local.get $empty)))

  (func $clone (export "rt_stack_clone")
    (param $ctx i64) (param $from i64) (param $shape i64) (param $empty i64) (result i64)
    (local $to i64) (local $len i64) (local $size i64) (local $k i64) (local $at i32)
    (local.set $len (i64.load offset=8 (i32.wrap_i64 (local.get $from))))
    (if (i64.eqz (local.get $len)) (then (return (local.get $empty))))
    (local.set $size (i64.load offset=16 (i32.wrap_i64 (local.get $shape))))
    (local.set $to (call $elements (local.get $ctx) (local.get $len) (local.get $size)))
    (memory.copy (i32.wrap_i64 (local.get $to)) (i32.wrap_i64 (i64.load (i32.wrap_i64 (local.get $from))))
      (i32.wrap_i64 (i64.mul (local.get $len) (local.get $size))))
    (if (i32.eq (i32.load (i32.wrap_i64 (local.get $shape))) (i32.const 2))
      (then
        (loop $next
          (local.set $at (i32.wrap_i64 (i64.add (local.get $to) (i64.shl (local.get $k) (i64.const 3)))))
          (i64.store (local.get $at)
            (call $clone (local.get $ctx) (i64.load (local.get $at))
              (i64.load offset=24 (i32.wrap_i64 (local.get $shape))) (local.get $empty)))
          (local.set $k (i64.add (local.get $k) (i64.const 1)))
          (br_if $next (i64.lt_u (local.get $k) (local.get $len))))))
    (call $header (local.get $ctx) (local.get $to) (local.get $len) (local.get $len)))

  ;; Adds numbers of a kind (the numbers of `ir::Scalar`).
  (func $add_numbers (param $kind i32) (param $to i32) (param $from i32) (param $step i32) (param $last i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $to) (local.get $last)))
        (block $stored
          (if (i32.eq (local.get $kind) (i32.const 10))
            (then
              (f32.store align=1 (local.get $to)
                (f32.add (f32.load align=1 (local.get $to)) (f32.load align=1 (local.get $from))))
              (br $stored)))
          (if (i32.eq (local.get $kind) (i32.const 11))
            (then
              (f64.store align=1 (local.get $to)
                (f64.add (f64.load align=1 (local.get $to)) (f64.load align=1 (local.get $from))))
              (br $stored)))
          (if (i32.eq (local.get $kind) (i32.const 9))
            (then
              (i32.store16 align=1 (local.get $to)
                (call $single_to_half
                  (f32.add
                    (call $half_to_single (i32.load16_u align=1 (local.get $to)))
                    (call $half_to_single (i32.load16_u align=1 (local.get $from))))))
              (br $stored)))
          (if (i32.eqz (local.get $kind)) (then (br $stored)))
          (if (i32.eq (local.get $step) (i32.const 1))
            (then
              (i32.store8 (local.get $to)
                (i32.add (i32.load8_u (local.get $to)) (i32.load8_u (local.get $from))))
              (br $stored)))
          (if (i32.eq (local.get $step) (i32.const 2))
            (then
              (i32.store16 align=1 (local.get $to)
                (i32.add (i32.load16_u align=1 (local.get $to)) (i32.load16_u align=1 (local.get $from))))
              (br $stored)))
          (if (i32.eq (local.get $step) (i32.const 4))
            (then
              (i32.store align=1 (local.get $to)
                (i32.add (i32.load align=1 (local.get $to)) (i32.load align=1 (local.get $from))))
              (br $stored)))
          (i64.store align=1 (local.get $to)
            (i64.add (i64.load align=1 (local.get $to)) (i64.load align=1 (local.get $from)))))
        (local.set $to (i32.add (local.get $to) (local.get $step)))
        (local.set $from (i32.add (local.get $from) (local.get $step)))
        (br $next))))

  (func $add_stack (export "rt_stack_add")
    (param $ctx i64) (param $loc i64) (param $from i64) (param $shape i64) (param $empty i64)
    (local $len i64) (local $to i32) (local $ptr i32) (local $k i64) (local $of i32) (local $step i32)
    (local.set $len (i64.load offset=8 (i32.wrap_i64 (local.get $from))))
    (if (i64.eqz (local.get $len)) (then (return)))
    (local.set $of (i32.wrap_i64 (local.get $shape)))
    (call $grow (local.get $ctx) (i32.wrap_i64 (local.get $loc)) (local.get $len) (local.get $of) (local.get $empty))
    (local.set $to (i32.wrap_i64 (i64.load (i32.wrap_i64 (i64.load (i32.wrap_i64 (local.get $loc)))))))
    (local.set $ptr (i32.wrap_i64 (i64.load (i32.wrap_i64 (local.get $from)))))
    (if (i32.eq (i32.load (local.get $of)) (i32.const 1)) (then (return)))
    (if (i32.eq (i32.load (local.get $of)) (i32.const 2))
      (then
        (loop $next
          (call $add_stack (local.get $ctx)
            (i64.extend_i32_u (i32.add (local.get $to) (i32.wrap_i64 (i64.shl (local.get $k) (i64.const 3)))))
            (i64.load (i32.add (local.get $ptr) (i32.wrap_i64 (i64.shl (local.get $k) (i64.const 3)))))
            (i64.load offset=24 (local.get $of)) (local.get $empty))
          (local.set $k (i64.add (local.get $k) (i64.const 1)))
          (br_if $next (i64.lt_u (local.get $k) (local.get $len))))
        (return)))
    (if (i64.eqz (i64.load offset=8 (local.get $of))) (then (return)))
    (local.set $step
      (i32.wrap_i64 (i64.div_u (i64.load offset=16 (local.get $of)) (i64.load offset=8 (local.get $of)))))
    (call $add_numbers (i32.load offset=4 (local.get $of)) (local.get $to) (local.get $ptr) (local.get $step)
      (i32.add (local.get $to) (i32.wrap_i64 (i64.mul (local.get $len) (i64.load offset=16 (local.get $of)))))))

  ;; ---- lanes, of which there are at most 32

  (func $gather (export "rt_gather") (param $places i64) (param $to i64) (param $mask i32) (param $bytes i64)
    (local $lane i32)
    (memory.fill (i32.wrap_i64 (local.get $to)) (i32.const 0)
      (i32.shl (i32.wrap_i64 (local.get $bytes)) (i32.const 5)))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $mask)))
        (local.set $lane (i32.ctz (local.get $mask)))
        (memory.copy
          (i32.add (i32.wrap_i64 (local.get $to)) (i32.mul (local.get $lane) (i32.wrap_i64 (local.get $bytes))))
          (i32.wrap_i64 (i64.load
            (i32.add (i32.wrap_i64 (local.get $places)) (i32.shl (local.get $lane) (i32.const 3)))))
          (i32.wrap_i64 (local.get $bytes)))
        (local.set $mask (i32.and (local.get $mask) (i32.sub (local.get $mask) (i32.const 1))))
        (br $next))))

  (func $scatter (export "rt_scatter") (param $places i64) (param $from i64) (param $mask i32) (param $bytes i64)
    (local $lane i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $mask)))
        (local.set $lane (i32.ctz (local.get $mask)))
        (memory.copy
          (i32.wrap_i64 (i64.load
            (i32.add (i32.wrap_i64 (local.get $places)) (i32.shl (local.get $lane) (i32.const 3)))))
          (i32.add (i32.wrap_i64 (local.get $from)) (i32.mul (local.get $lane) (i32.wrap_i64 (local.get $bytes))))
          (i32.wrap_i64 (local.get $bytes)))
        (local.set $mask (i32.and (local.get $mask) (i32.sub (local.get $mask) (i32.const 1))))
        (br $next))))

  ;; The addresses of elements by their numbers; the lanes whose elements exist.
  (func $elements_at
    (param $numbers i64) (param $mask i32) (param $first i64) (param $n i64) (param $size i64) (param $signed i32)
    (result i32)
    (local $lane i32) (local $number i64) (local $found i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $mask)))
        (local.set $lane (i32.ctz (local.get $mask)))
        (local.set $number
          (i64.load32_u (i32.add (i32.wrap_i64 (local.get $numbers)) (i32.shl (local.get $lane) (i32.const 2)))))
        (if (local.get $signed) (then (local.set $number (i64.extend32_s (local.get $number)))))
        (if (i64.lt_u (local.get $number) (local.get $n))
          (then
            (local.set $found (i32.or (local.get $found) (i32.shl (i32.const 1) (local.get $lane))))
            (i64.store (i32.add (global.get $places) (i32.shl (local.get $lane) (i32.const 3)))
              (i64.add (local.get $first) (i64.mul (local.get $number) (local.get $size))))))
        (local.set $mask (i32.and (local.get $mask) (i32.sub (local.get $mask) (i32.const 1))))
        (br $next)))
    (local.get $found))

  (func (export "rt_gather_elements")
    (param $numbers i64) (param $to i64) (param $mask i32) (param $bytes i64) (param $first i64) (param $n i64)
    (param $size i64) (param $signed i32)
    (local.set $mask
      (call $elements_at (local.get $numbers) (local.get $mask) (local.get $first) (local.get $n) (local.get $size)
        (local.get $signed)))
    (call $gather (i64.extend_i32_u (global.get $places)) (local.get $to) (local.get $mask) (local.get $bytes)))

  (func (export "rt_scatter_elements")
    (param $numbers i64) (param $from i64) (param $mask i32) (param $bytes i64) (param $first i64) (param $n i64)
    (param $size i64) (param $signed i32)
    (local.set $mask
      (call $elements_at (local.get $numbers) (local.get $mask) (local.get $first) (local.get $n) (local.get $size)
        (local.get $signed)))
    (call $scatter (i64.extend_i32_u (global.get $places)) (local.get $from) (local.get $mask) (local.get $bytes)))

  ;; Any atomic operation, by its number and that of the kind of number: threads run one after the other. A number is
  ;; canonical: extended from its width without a sign.
  (func (export "rt_atomic") (param $at i64) (param $code i32) (param $x i64) (param $compare i64) (result i64)
    (local $to i32) (local $old i64) (local $new i64) (local $kind i32) (local $op i32) (local $bits i32)
    (local $a i64) (local $b i64) (local $f f64) (local $g f64) (local $less i32) (local $more i32)
    (local.set $to (i32.wrap_i64 (local.get $at)))
    (local.set $kind (i32.and (local.get $code) (i32.const 255)))
    (local.set $op (i32.shr_u (local.get $code) (i32.const 8)))
    ;; The widths of bool, i8 to i64, u8 to u64, f16, f32, f64, as powers of two times 8.
    (local.set $bits
      (i32.shl (i32.const 8)
        (i32.and (i32.wrap_i64 (i64.shr_u (i64.const 0x321321032100)
          (i64.extend_i32_u (i32.shl (local.get $kind) (i32.const 2))))) (i32.const 15))))
    (local.set $old (call $read (local.get $to) (local.get $bits)))
    (local.set $x (call $canonical (local.get $x) (local.get $bits)))
    (local.set $compare (call $canonical (local.get $compare) (local.get $bits)))
    (local.set $new (local.get $x))
    (block $ready
      (br_if $ready (i32.eq (local.get $op) (i32.const 6)))
      (if (i32.eq (local.get $op) (i32.const 7))
        (then
          (if (i64.ne (local.get $old) (local.get $compare)) (then (local.set $new (local.get $old))))
          (br $ready)))
      (if (i32.eq (local.get $op) (i32.const 3))
        (then (local.set $new (i64.and (local.get $old) (local.get $x))) (br $ready)))
      (if (i32.eq (local.get $op) (i32.const 4))
        (then (local.set $new (i64.or (local.get $old) (local.get $x))) (br $ready)))
      (if (i32.eq (local.get $op) (i32.const 5))
        (then (local.set $new (i64.xor (local.get $old) (local.get $x))) (br $ready)))
      (if (i32.ge_u (local.get $kind) (i32.const 9))
        (then
          (local.set $f (call $float (local.get $old) (local.get $bits)))
          (local.set $g (call $float (local.get $x) (local.get $bits)))
          (if (i32.eqz (local.get $op))
            (then
              (local.set $new (call $add_floats (local.get $f) (local.get $g) (local.get $bits)))
              (br $ready)))
          ;; A NaN gives way to the other number.
          (local.set $less (i32.or (f64.lt (local.get $g) (local.get $f)) (f64.ne (local.get $f) (local.get $f))))
          (local.set $more (i32.or (f64.gt (local.get $g) (local.get $f)) (f64.ne (local.get $f) (local.get $f)))))
        (else
          (if (i32.eqz (local.get $op))
            (then (local.set $new (i64.add (local.get $old) (local.get $x))) (br $ready)))
          (local.set $a (local.get $old))
          (local.set $b (local.get $x))
          (if (i32.le_u (i32.sub (local.get $kind) (i32.const 1)) (i32.const 3))
            (then
              (local.set $a (call $signed (local.get $a) (local.get $bits)))
              (local.set $b (call $signed (local.get $b) (local.get $bits)))
              (local.set $less (i64.lt_s (local.get $b) (local.get $a)))
              (local.set $more (i64.gt_s (local.get $b) (local.get $a))))
            (else
              (local.set $less (i64.lt_u (local.get $b) (local.get $a)))
              (local.set $more (i64.gt_u (local.get $b) (local.get $a)))))))
      (local.set $new
        (select (local.get $x) (local.get $old)
          (select (local.get $less) (local.get $more) (i32.eq (local.get $op) (i32.const 1))))))
    (call $write (local.get $to) (local.get $bits) (local.get $new))
    (local.get $old))

  (func $read (param $at i32) (param $bits i32) (result i64)
    (if (i32.eq (local.get $bits) (i32.const 8)) (then (return (i64.load8_u (local.get $at)))))
    (if (i32.eq (local.get $bits) (i32.const 16)) (then (return (i64.load16_u align=1 (local.get $at)))))
    (if (i32.eq (local.get $bits) (i32.const 32)) (then (return (i64.load32_u align=1 (local.get $at)))))
    (i64.load align=1 (local.get $at)))

  (func $write (param $at i32) (param $bits i32) (param $x i64)
    (if (i32.eq (local.get $bits) (i32.const 8)) (then (i64.store8 (local.get $at) (local.get $x)) (return)))
    (if (i32.eq (local.get $bits) (i32.const 16)) (then (i64.store16 align=1 (local.get $at) (local.get $x)) (return)))
    (if (i32.eq (local.get $bits) (i32.const 32)) (then (i64.store32 align=1 (local.get $at) (local.get $x)) (return)))
    (i64.store align=1 (local.get $at) (local.get $x)))

  (func $canonical (param $x i64) (param $bits i32) (result i64)
    (i64.shr_u
      (i64.shl (local.get $x) (i64.sub (i64.const 64) (i64.extend_i32_u (local.get $bits))))
      (i64.sub (i64.const 64) (i64.extend_i32_u (local.get $bits)))))

  (func $signed (param $x i64) (param $bits i32) (result i64)
    (i64.shr_s
      (i64.shl (local.get $x) (i64.sub (i64.const 64) (i64.extend_i32_u (local.get $bits))))
      (i64.sub (i64.const 64) (i64.extend_i32_u (local.get $bits)))))

  (func $float (param $x i64) (param $bits i32) (result f64)
    (if (i32.eq (local.get $bits) (i32.const 16))
      (then (return (f64.promote_f32 (call $half_to_single (i32.wrap_i64 (local.get $x)))))))
    (if (i32.eq (local.get $bits) (i32.const 32))
      (then (return (f64.promote_f32 (f32.reinterpret_i32 (i32.wrap_i64 (local.get $x)))))))
    (f64.reinterpret_i64 (local.get $x)))

  ;; A sum of doubles, of floats (in their own precision) or of halves (in that of floats).
  (func $add_floats (param $a f64) (param $b f64) (param $bits i32) (result i64)
    (local $sum f32)
    (if (i32.eq (local.get $bits) (i32.const 64))
      (then (return (i64.reinterpret_f64 (f64.add (local.get $a) (local.get $b))))))
    (local.set $sum (f32.add (f32.demote_f64 (local.get $a)) (f32.demote_f64 (local.get $b))))
    (if (i32.eq (local.get $bits) (i32.const 16))
      (then (return (i64.extend_i32_u (call $single_to_half (local.get $sum))))))
    (i64.extend_i32_u (i32.reinterpret_f32 (local.get $sum))))

  (func (export "rt_add_single") (param $at i64) (param $x f32) (result f32)
    (local $old f32)
    (local.set $old (f32.load align=1 (i32.wrap_i64 (local.get $at))))
    (f32.store align=1 (i32.wrap_i64 (local.get $at)) (f32.add (local.get $old) (local.get $x)))
    (local.get $old))

  (func (export "rt_add_double") (param $at i64) (param $x f64) (result f64)
    (local $old f64)
    (local.set $old (f64.load align=1 (i32.wrap_i64 (local.get $at))))
    (f64.store align=1 (i32.wrap_i64 (local.get $at)) (f64.add (local.get $old) (local.get $x)))
    (local.get $old))

  ;; All threads of a group with barriers are in the lanes of one call.
  (func (export "rt_barrier") (param $ctx i64))

  ;; ---- numbers

  (func $half_to_single (export "rt_half_to_single") (param $h i32) (result f32)
    (local $sign i32) (local $exponent i32)
    (local.set $sign (i32.shl (i32.and (local.get $h) (i32.const 0x8000)) (i32.const 16)))
    (local.set $exponent (i32.and (local.get $h) (i32.const 0x7c00)))
    (local.set $h (i32.and (local.get $h) (i32.const 0x3ff)))
    (if (i32.eqz (local.get $exponent))
      (then
        ;; A subnormal number is a multiple of 2^-24.
        (return
          (f32.copysign
            (f32.mul (f32.convert_i32_u (local.get $h)) (f32.const 0x1p-24))
            (f32.reinterpret_i32 (i32.or (local.get $sign) (i32.const 0x3f800000)))))))
    (if (i32.eq (local.get $exponent) (i32.const 0x7c00))
      (then
        (return
          (f32.reinterpret_i32
            (i32.or (i32.or (local.get $sign) (i32.const 0x7f800000)) (i32.shl (local.get $h) (i32.const 13)))))))
    (f32.reinterpret_i32
      (i32.or (local.get $sign)
        (i32.shl (i32.add (i32.or (local.get $exponent) (local.get $h)) (i32.const 0x1c000)) (i32.const 13)))))

  (func $single_to_half (export "rt_single_to_half") (param $x f32) (result i32)
    (call $double_to_half (f64.promote_f32 (local.get $x))))

  (func $double_to_half (export "rt_double_to_half") (param $x f64) (result i32)
    (local $sign i32) (local $bits i64)
    (local.set $sign
      (i32.and (i32.wrap_i64 (i64.shr_u (i64.reinterpret_f64 (local.get $x)) (i64.const 48))) (i32.const 0x8000)))
    (local.set $x (f64.abs (local.get $x)))
    (if (f64.ne (local.get $x) (local.get $x)) (then (return (i32.or (local.get $sign) (i32.const 0x7e00)))))
    (if (f64.ge (local.get $x) (f64.const 65520)) (then (return (i32.or (local.get $sign) (i32.const 0x7c00)))))
    (if (f64.lt (local.get $x) (f64.const 0x1p-14))
      (then
        (return
          (i32.or (local.get $sign)
            (i32.trunc_sat_f64_u (f64.nearest (f64.mul (local.get $x) (f64.const 0x1p24))))))))
    ;; Rounds to ten bits, to even in the middle.
    (local.set $bits (i64.reinterpret_f64 (local.get $x)))
    (local.set $bits
      (i64.add (local.get $bits)
        (i64.add (i64.const 0x1ffffffffff) (i64.and (i64.shr_u (local.get $bits) (i64.const 42)) (i64.const 1)))))
    (i32.or (local.get $sign)
      (i32.sub (i32.wrap_i64 (i64.shr_u (local.get $bits) (i64.const 42))) (i32.const 0xfc000))))

  ;; The remainder of a quotient that is rounded towards zero: exact, by long division.
  (func $rem (export "rt_rem_double") (param $a f64) (param $b f64) (result f64)
    (local $x i64) (local $y i64) (local $ex i64) (local $ey i64) (local $by i64)
    (if (i32.or
          (i32.or (f64.ne (local.get $a) (local.get $a)) (f64.ne (local.get $b) (local.get $b)))
          (i32.or (f64.eq (local.get $b) (f64.const 0)) (f64.eq (f64.abs (local.get $a)) (f64.const inf))))
      (then (return (f64.const nan))))
    (if (f64.lt (f64.abs (local.get $a)) (f64.abs (local.get $b))) (then (return (local.get $a))))
    (local.set $x (i64.reinterpret_f64 (f64.abs (local.get $a))))
    (local.set $y (i64.reinterpret_f64 (f64.abs (local.get $b))))
    (local.set $ex (i64.shr_u (local.get $x) (i64.const 52)))
    (local.set $ey (i64.shr_u (local.get $y) (i64.const 52)))
    ;; Significands with the leading one; those of subnormal numbers are shifted to their places.
    (if (i64.eqz (local.get $ex))
      (then
        (local.set $by (i64.sub (i64.clz (local.get $x)) (i64.const 11)))
        (local.set $x (i64.shl (local.get $x) (local.get $by)))
        (local.set $ex (i64.sub (i64.const 1) (local.get $by))))
      (else
        (local.set $x
          (i64.or (i64.and (local.get $x) (i64.const 0xfffffffffffff)) (i64.const 0x10000000000000)))))
    (if (i64.eqz (local.get $ey))
      (then
        (local.set $by (i64.sub (i64.clz (local.get $y)) (i64.const 11)))
        (local.set $y (i64.shl (local.get $y) (local.get $by)))
        (local.set $ey (i64.sub (i64.const 1) (local.get $by))))
      (else
        (local.set $y
          (i64.or (i64.and (local.get $y) (i64.const 0xfffffffffffff)) (i64.const 0x10000000000000)))))
    (block $done
      (loop $next
        (if (i64.ge_u (local.get $x) (local.get $y)) (then (local.set $x (i64.sub (local.get $x) (local.get $y)))))
        (br_if $done (i64.le_s (local.get $ex) (local.get $ey)))
        (local.set $x (i64.shl (local.get $x) (i64.const 1)))
        (local.set $ex (i64.sub (local.get $ex) (i64.const 1)))
        (br $next)))
    (if (i64.eqz (local.get $x)) (then (return (f64.copysign (f64.const 0) (local.get $a)))))
    ;; Normal again, or subnormal if the exponent is too small.
    (local.set $by (i64.sub (i64.clz (local.get $x)) (i64.const 11)))
    (local.set $x (i64.shl (local.get $x) (local.get $by)))
    (local.set $ex (i64.sub (local.get $ex) (local.get $by)))
    (if (i64.gt_s (local.get $ex) (i64.const 0))
      (then
        (local.set $x
          (i64.or (i64.and (local.get $x) (i64.const 0xfffffffffffff)) (i64.shl (local.get $ex) (i64.const 52)))))
      (else (local.set $x (i64.shr_u (local.get $x) (i64.sub (i64.const 1) (local.get $ex))))))
    (f64.copysign (f64.reinterpret_i64 (local.get $x)) (local.get $a)))

  ;; The remainder of floats is a float.
  (func (export "rt_rem_single") (param $a f32) (param $b f32) (result f32)
    (f32.demote_f64 (call $rem (f64.promote_f32 (local.get $a)) (f64.promote_f32 (local.get $b)))))

  (func $bitrev (export "bitrev_i32") (param $x i32) (result i32)
    (local.set $x
      (i32.or
        (i32.and (i32.shr_u (local.get $x) (i32.const 1)) (i32.const 0x55555555))
        (i32.shl (i32.and (local.get $x) (i32.const 0x55555555)) (i32.const 1))))
    (local.set $x
      (i32.or
        (i32.and (i32.shr_u (local.get $x) (i32.const 2)) (i32.const 0x33333333))
        (i32.shl (i32.and (local.get $x) (i32.const 0x33333333)) (i32.const 2))))
    (local.set $x
      (i32.or
        (i32.and (i32.shr_u (local.get $x) (i32.const 4)) (i32.const 0x0f0f0f0f))
        (i32.shl (i32.and (local.get $x) (i32.const 0x0f0f0f0f)) (i32.const 4))))
    (local.set $x
      (i32.or
        (i32.and (i32.shr_u (local.get $x) (i32.const 8)) (i32.const 0x00ff00ff))
        (i32.shl (i32.and (local.get $x) (i32.const 0x00ff00ff)) (i32.const 8))))
    (i32.rotl (local.get $x) (i32.const 16)))

  (func (export "bitrev_i64") (param $x i64) (result i64)
    (i64.or
      (i64.shl (i64.extend_i32_u (call $bitrev (i32.wrap_i64 (local.get $x)))) (i64.const 32))
      (i64.extend_i32_u (call $bitrev (i32.wrap_i64 (i64.shr_u (local.get $x) (i64.const 32)))))))

  ;; A product of floats is exact as a double. Its sum with the third operand is rounded to odd (to the neighbour whose
  ;; last bit is 1, unless it is exact), so that rounding it again, to a float, gives what rounding once gives: Boldo and
  ;; Melquiond, "Emulation of a FMA and correctly rounded sums".
  (func $odd_sum (param $p f64) (param $c f64) (result f64)
    (local $s f64) (local $t f64) (local $e f64)
    (local.set $s (f64.add (local.get $p) (local.get $c)))
    (local.set $t (f64.sub (local.get $s) (local.get $p)))
    (local.set $e
      (f64.add
        (f64.sub (local.get $p) (f64.sub (local.get $s) (local.get $t)))
        (f64.sub (local.get $c) (local.get $t))))
    (if (i32.and
          (i32.or (f64.gt (local.get $e) (f64.const 0)) (f64.lt (local.get $e) (f64.const 0)))
          (i32.wrap_i64 (i64.and (i64.xor (i64.reinterpret_f64 (local.get $s)) (i64.const 1)) (i64.const 1))))
      (then
        (return
          (f64.reinterpret_i64
            (i64.add (i64.reinterpret_f64 (local.get $s))
              (select (i64.const 1) (i64.const -1)
                (i32.eq (f64.gt (local.get $e) (f64.const 0)) (f64.gt (local.get $s) (f64.const 0)))))))))
    (local.get $s))

  (func (export "fma_f32") (param $a f32) (param $b f32) (param $c f32) (result f32)
    (f32.demote_f64
      (call $odd_sum
        (f64.mul (f64.promote_f32 (local.get $a)) (f64.promote_f32 (local.get $b)))
        (f64.promote_f32 (local.get $c)))))

  (func $odd_sum_x2 (param $p v128) (param $c v128) (result v128)
    (local $s v128) (local $t v128) (local $e v128) (local $positive v128) (local $step v128)
    (local.set $s (f64x2.add (local.get $p) (local.get $c)))
    (local.set $t (f64x2.sub (local.get $s) (local.get $p)))
    (local.set $e
      (f64x2.add
        (f64x2.sub (local.get $p) (f64x2.sub (local.get $s) (local.get $t)))
        (f64x2.sub (local.get $c) (local.get $t))))
    (local.set $positive (f64x2.gt (local.get $e) (v128.const i64x2 0 0)))
    ;; 1 where the error and the sum have the same sign, else -1.
    (local.set $step
      (v128.or
        (v128.xor (local.get $positive) (f64x2.gt (local.get $s) (v128.const i64x2 0 0)))
        (v128.const i64x2 1 1)))
    ;; 0 where the sum is exact, infinite, no number, or odd.
    (local.set $step
      (v128.and (local.get $step)
        (v128.and
          (v128.or (local.get $positive) (f64x2.lt (local.get $e) (v128.const i64x2 0 0)))
          (i64x2.eq (v128.and (local.get $s) (v128.const i64x2 1 1)) (v128.const i64x2 0 0)))))
    (i64x2.add (local.get $s) (local.get $step)))

  ;; Four at a time. A sum of doubles that is rounded to the nearest is rounded right to a float, too, unless it lies in
  ;; the middle between two floats, or the float is subnormal.
  (func (export "fma_f32x4") (param $a v128) (param $b v128) (param $c v128) (result v128)
    (local $low v128) (local $high v128) (local $r v128)
    (local.set $low
      (f64x2.add
        (f64x2.mul (f64x2.promote_low_f32x4 (local.get $a)) (f64x2.promote_low_f32x4 (local.get $b)))
        (f64x2.promote_low_f32x4 (local.get $c))))
    (local.set $high
      (f64x2.add
        (f64x2.mul (f64x2.promote_low_f32x4 (i8x16.shuffle 8 9 10 11 12 13 14 15 8 9 10 11 12 13 14 15 (local.get $a) (local.get $a)))
          (f64x2.promote_low_f32x4 (i8x16.shuffle 8 9 10 11 12 13 14 15 8 9 10 11 12 13 14 15 (local.get $b) (local.get $b))))
        (f64x2.promote_low_f32x4 (i8x16.shuffle 8 9 10 11 12 13 14 15 8 9 10 11 12 13 14 15 (local.get $c) (local.get $c)))))
    (local.set $r
      (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23
        (f32x4.demote_f64x2_zero (local.get $low)) (f32x4.demote_f64x2_zero (local.get $high))))
    (if (v128.any_true
          (v128.or
            (i32x4.eq
              (v128.and
                (i8x16.shuffle 0 1 2 3 8 9 10 11 16 17 18 19 24 25 26 27 (local.get $low) (local.get $high))
                (v128.const i32x4 0x1fffffff 0x1fffffff 0x1fffffff 0x1fffffff))
              (v128.const i32x4 0x10000000 0x10000000 0x10000000 0x10000000))
            ;; Without its sign, and zero as the largest.
            (i32x4.lt_u
              (i32x4.sub (i32x4.shl (local.get $r) (i32.const 1)) (v128.const i32x4 1 1 1 1))
              (v128.const i32x4 0x01000000 0x01000000 0x01000000 0x01000000))))
      (then (return (call $fma_f32x4_odd (local.get $a) (local.get $b) (local.get $c)))))
    (local.get $r))

  (func $upper (param $x v128) (result v128)
    (i8x16.shuffle 8 9 10 11 12 13 14 15 8 9 10 11 12 13 14 15 (local.get $x) (local.get $x)))

  (func $fma_f32x4_odd (param $a v128) (param $b v128) (param $c v128) (result v128)
    (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23
      (f32x4.demote_f64x2_zero
        (call $odd_sum_x2
          (f64x2.mul (f64x2.promote_low_f32x4 (local.get $a)) (f64x2.promote_low_f32x4 (local.get $b)))
          (f64x2.promote_low_f32x4 (local.get $c))))
      (f32x4.demote_f64x2_zero
        (call $odd_sum_x2
          (f64x2.mul (f64x2.promote_low_f32x4 (call $upper (local.get $a)))
            (f64x2.promote_low_f32x4 (call $upper (local.get $b))))
          (f64x2.promote_low_f32x4 (call $upper (local.get $c)))))))

  ;; The same for doubles, by the exact product as a sum of two (Dekker), where nothing overflows or underflows: every
  ;; operand is zero, or between 2^-300 and 2^300. Otherwise in integers.
  (func $fma (export "fma_f64") (param $a f64) (param $b f64) (param $c f64) (result f64)
    (local $p f64) (local $e f64) (local $ah f64) (local $bh f64) (local $al f64) (local $bl f64)
    (local $u f64) (local $ul f64) (local $t f64) (local $tl f64) (local $x f64)
    (if (i32.eqz
          (i32.and (call $is_usual (local.get $a))
            (i32.and (call $is_usual (local.get $b)) (call $is_usual (local.get $c)))))
      (then (return (call $fma_slow (local.get $a) (local.get $b) (local.get $c)))))
    (local.set $p (f64.mul (local.get $a) (local.get $b)))
    ;; A zero is exact, and has the sign that the sum gives it.
    (if (i32.or (f64.eq (local.get $p) (f64.const 0)) (f64.eq (local.get $c) (f64.const 0)))
      (then (return (f64.add (local.get $p) (local.get $c)))))
    (local.set $x (f64.mul (local.get $a) (f64.const 134217729)))
    (local.set $ah (f64.sub (local.get $x) (f64.sub (local.get $x) (local.get $a))))
    (local.set $al (f64.sub (local.get $a) (local.get $ah)))
    (local.set $x (f64.mul (local.get $b) (f64.const 134217729)))
    (local.set $bh (f64.sub (local.get $x) (f64.sub (local.get $x) (local.get $b))))
    (local.set $bl (f64.sub (local.get $b) (local.get $bh)))
    (local.set $e
      (f64.add
        (f64.add
          (f64.add (f64.sub (f64.mul (local.get $ah) (local.get $bh)) (local.get $p))
            (f64.mul (local.get $ah) (local.get $bl)))
          (f64.mul (local.get $al) (local.get $bh)))
        (f64.mul (local.get $al) (local.get $bl))))
    ;; c + e = u + ul, p + u = t + tl, both exactly.
    (local.set $u (f64.add (local.get $c) (local.get $e)))
    (local.set $x (f64.sub (local.get $u) (local.get $c)))
    (local.set $ul
      (f64.add (f64.sub (local.get $c) (f64.sub (local.get $u) (local.get $x))) (f64.sub (local.get $e) (local.get $x))))
    (local.set $t (f64.add (local.get $p) (local.get $u)))
    (local.set $x (f64.sub (local.get $t) (local.get $p)))
    (local.set $tl
      (f64.add (f64.sub (local.get $p) (f64.sub (local.get $t) (local.get $x))) (f64.sub (local.get $u) (local.get $x))))
    (f64.add (local.get $t) (call $odd_sum (local.get $tl) (local.get $ul))))

  (func $is_usual (param $x f64) (result i32)
    (i32.or (f64.eq (local.get $x) (f64.const 0))
      (i32.and (f64.ge (f64.abs (local.get $x)) (f64.const 0x1p-300))
        (f64.le (f64.abs (local.get $x)) (f64.const 0x1p300)))))

  (func (export "fma_f64x2") (param $a v128) (param $b v128) (param $c v128) (result v128)
    (f64x2.replace_lane 1
      (f64x2.splat
        (call $fma (f64x2.extract_lane 0 (local.get $a)) (f64x2.extract_lane 0 (local.get $b))
          (f64x2.extract_lane 0 (local.get $c))))
      (call $fma (f64x2.extract_lane 1 (local.get $a)) (f64x2.extract_lane 1 (local.get $b))
        (f64x2.extract_lane 1 (local.get $c)))))

  ;; In integers: the product has 106 bits, and the sum is kept in 128 with what is lost below noted in the last.
  (func $fma_slow (param $a f64) (param $b f64) (param $c f64) (result f64)
    (local $p f64) (local $ma i64) (local $mb i64) (local $mc i64) (local $ep i64) (local $ec i64)
    (local $hi i64) (local $lo i64) (local $chi i64) (local $clo i64) (local $by i64) (local $sign i64)
    (local $sc i64) (local $x i64) (local $y i64) (local $lost i64)
    ;; Infinities, no numbers, and zeros need no more than usual arithmetic.
    (local.set $p (f64.mul (local.get $a) (local.get $b)))
    (if (i32.or
          (i32.or (f64.eq (local.get $a) (f64.const 0)) (f64.eq (local.get $b) (f64.const 0)))
          (i32.or
            (i32.eqz (i32.and (f64.lt (f64.abs (local.get $a)) (f64.const inf))
              (f64.lt (f64.abs (local.get $b)) (f64.const inf))))
            (i32.eqz (f64.lt (f64.abs (local.get $c)) (f64.const inf)))))
      (then
        ;; A product of finite numbers that overflows is finite beside an infinite summand.
        (if (i32.and (f64.lt (f64.abs (local.get $a)) (f64.const inf)) (f64.lt (f64.abs (local.get $b)) (f64.const inf)))
          (then
            (if (i32.eqz (f64.lt (f64.abs (local.get $c)) (f64.const inf))) (then (return (local.get $c))))))
        (return (f64.add (local.get $p) (local.get $c)))))
    (local.set $sign
      (i64.and (i64.xor (i64.reinterpret_f64 (local.get $a)) (i64.reinterpret_f64 (local.get $b)))
        (i64.const 0x8000000000000000)))
    (local.set $sc (i64.and (i64.reinterpret_f64 (local.get $c)) (i64.const 0x8000000000000000)))
    (local.set $ma (call $significand (local.get $a)))
    (local.set $mb (call $significand (local.get $b)))
    (local.set $ep (i64.add (call $exponent (local.get $a)) (call $exponent (local.get $b))))
    ;; The product, to 128 bits: (ah 2^32 + al) (bh 2^32 + bl), of which ah and bh have 21 bits.
    (local.set $x
      (i64.add
        (i64.mul (i64.shr_u (local.get $ma) (i64.const 32)) (i64.and (local.get $mb) (i64.const 0xffffffff)))
        (i64.mul (i64.and (local.get $ma) (i64.const 0xffffffff)) (i64.shr_u (local.get $mb) (i64.const 32)))))
    (local.set $y
      (i64.mul (i64.and (local.get $ma) (i64.const 0xffffffff)) (i64.and (local.get $mb) (i64.const 0xffffffff))))
    (local.set $lo (i64.add (local.get $y) (i64.shl (local.get $x) (i64.const 32))))
    (local.set $hi
      (i64.add
        (i64.add
          (i64.mul (i64.shr_u (local.get $ma) (i64.const 32)) (i64.shr_u (local.get $mb) (i64.const 32)))
          (i64.shr_u (local.get $x) (i64.const 32)))
        (i64.extend_i32_u (i64.lt_u (local.get $lo) (local.get $y)))))
    ;; To the left by 20, so that the leading bit is number 124 or 125; the exponent is that of bit 0.
    (local.set $hi (i64.or (i64.shl (local.get $hi) (i64.const 20)) (i64.shr_u (local.get $lo) (i64.const 44))))
    (local.set $lo (i64.shl (local.get $lo) (i64.const 20)))
    (local.set $ep (i64.sub (local.get $ep) (i64.const 20)))
    (if (f64.ne (local.get $c) (f64.const 0))
      (then
        (local.set $mc (call $significand (local.get $c)))
        (local.set $ec (i64.sub (call $exponent (local.get $c)) (i64.const 72)))
        ;; The leading bit is number 124.
        (local.set $chi (i64.shl (local.get $mc) (i64.const 8)))
        (local.set $by (i64.sub (local.get $ec) (local.get $ep)))
        (if (i64.gt_s (local.get $by) (i64.const 0))
          (then
            (call $shift_right (local.get $hi) (local.get $lo) (local.get $by))
            (local.set $lo)
            (local.set $hi)
            (local.set $ep (local.get $ec)))
          (else
            (call $shift_right (local.get $chi) (i64.const 0) (i64.sub (i64.const 0) (local.get $by)))
            (local.set $clo)
            (local.set $chi)))
        (if (i64.eq (local.get $sign) (local.get $sc))
          (then
            (local.set $x (i64.add (local.get $lo) (local.get $clo)))
            (local.set $hi
              (i64.add (i64.add (local.get $hi) (local.get $chi))
                (i64.extend_i32_u (i64.lt_u (local.get $x) (local.get $lo)))))
            (local.set $lo (local.get $x)))
          (else
            ;; The larger minus the smaller.
            (if (i32.or (i64.lt_u (local.get $hi) (local.get $chi))
                  (i32.and (i64.eq (local.get $hi) (local.get $chi)) (i64.lt_u (local.get $lo) (local.get $clo))))
              (then
                (local.set $x (local.get $hi))
                (local.set $hi (local.get $chi))
                (local.set $chi (local.get $x))
                (local.set $x (local.get $lo))
                (local.set $lo (local.get $clo))
                (local.set $clo (local.get $x))
                (local.set $sign (local.get $sc))))
            (local.set $hi
              (i64.sub (i64.sub (local.get $hi) (local.get $chi))
                (i64.extend_i32_u (i64.lt_u (local.get $lo) (local.get $clo)))))
            (local.set $lo (i64.sub (local.get $lo) (local.get $clo)))
            (if (i64.eqz (i64.or (local.get $hi) (local.get $lo))) (then (return (f64.const 0))))))))
    (call $round (local.get $hi) (local.get $lo) (local.get $ep) (local.get $sign)))

  ;; The significand of a number other than zero, with its leading one at bit 52; and the exponent of its bit 0.
  (func $significand (param $x f64) (result i64)
    (local $m i64)
    (local.set $m (i64.and (i64.reinterpret_f64 (local.get $x)) (i64.const 0xfffffffffffff)))
    (if (i64.eqz (i64.and (i64.reinterpret_f64 (local.get $x)) (i64.const 0x7ff0000000000000)))
      (then (return (i64.shl (local.get $m) (i64.sub (i64.clz (local.get $m)) (i64.const 11))))))
    (i64.or (local.get $m) (i64.const 0x10000000000000)))

  (func $exponent (param $x f64) (result i64)
    (local $field i64)
    (local.set $field
      (i64.and (i64.shr_u (i64.reinterpret_f64 (local.get $x)) (i64.const 52)) (i64.const 0x7ff)))
    (if (i64.eqz (local.get $field))
      (then
        (local.set $field
          (i64.sub (i64.const 12)
            (i64.clz (i64.and (i64.reinterpret_f64 (local.get $x)) (i64.const 0xfffffffffffff)))))))
    (i64.sub (local.get $field) (i64.const 1075)))

  ;; Shifts 128 bits to the right; the last bit is also 1 if a bit that is lost was.
  (func $shift_right (param $hi i64) (param $lo i64) (param $by i64) (result i64 i64)
    (local $lost i64)
    (if (i64.ge_u (local.get $by) (i64.const 128))
      (then
        (return (i64.const 0) (i64.extend_i32_u (i64.ne (i64.or (local.get $hi) (local.get $lo)) (i64.const 0))))))
    (if (i64.ge_u (local.get $by) (i64.const 64))
      (then
        (local.set $lost (local.get $lo))
        (local.set $lo (local.get $hi))
        (local.set $hi (i64.const 0))
        (local.set $by (i64.sub (local.get $by) (i64.const 64)))))
    (if (i64.ne (local.get $by) (i64.const 0))
      (then
        (local.set $lost
          (i64.or (local.get $lost) (i64.shl (local.get $lo) (i64.sub (i64.const 64) (local.get $by)))))
        (local.set $lo
          (i64.or (i64.shr_u (local.get $lo) (local.get $by))
            (i64.shl (local.get $hi) (i64.sub (i64.const 64) (local.get $by)))))
        (local.set $hi (i64.shr_u (local.get $hi) (local.get $by)))))
    (local.get $hi)
    (i64.or (local.get $lo) (i64.extend_i32_u (i64.ne (local.get $lost) (i64.const 0)))))

  ;; The double nearest to 128 bits, not all zero, times 2^e, with a sign.
  (func $round (param $hi i64) (param $lo i64) (param $e i64) (param $sign i64) (result f64)
    (local $n i64) (local $rest i64)
    (if (i64.eqz (local.get $hi))
      (then
        (local.set $hi (local.get $lo))
        (local.set $lo (i64.const 0))
        (local.set $e (i64.sub (local.get $e) (i64.const 64)))))
    (local.set $n (i64.clz (local.get $hi)))
    (if (i64.ne (local.get $n) (i64.const 0))
      (then
        (local.set $hi
          (i64.or (i64.shl (local.get $hi) (local.get $n))
            (i64.shr_u (local.get $lo) (i64.sub (i64.const 64) (local.get $n)))))
        (local.set $lo (i64.shl (local.get $lo) (local.get $n)))))
    ;; The field of the exponent, if the number is normal.
    (local.set $e (i64.sub (i64.add (local.get $e) (i64.const 1150)) (local.get $n)))
    (if (i64.ge_s (local.get $e) (i64.const 2047))
      (then (return (f64.reinterpret_i64 (i64.or (local.get $sign) (i64.const 0x7ff0000000000000))))))
    (if (i64.lt_s (local.get $e) (i64.const 1))
      (then
        (call $shift_right (local.get $hi) (local.get $lo) (i64.sub (i64.const 1) (local.get $e)))
        (local.set $lo)
        (local.set $hi)
        (local.set $e (i64.const 1))))
    (local.set $hi (i64.or (local.get $hi) (i64.extend_i32_u (i64.ne (local.get $lo) (i64.const 0)))))
    (local.set $rest (i64.and (local.get $hi) (i64.const 0x7ff)))
    (local.set $hi (i64.shr_u (local.get $hi) (i64.const 11)))
    (local.set $n
      (i64.extend_i32_u
        (i32.or (i64.gt_u (local.get $rest) (i64.const 0x400))
          (i32.and (i64.eq (local.get $rest) (i64.const 0x400))
            (i32.wrap_i64 (i64.and (local.get $hi) (i64.const 1)))))))
    (f64.reinterpret_i64
      (i64.or (local.get $sign)
        (i64.add
          (i64.add (local.get $hi) (local.get $n))
          (i64.shl (i64.sub (local.get $e) (i64.const 1)) (i64.const 52))))))
)
