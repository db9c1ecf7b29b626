;; What compiled code calls: memory, stacks, and the operations that WebAssembly has no instruction for.
;;
;; Addresses are 64-bit integers, as in all code that `native` emits; the context and its fields are those of
;; `native::runtime`. `mod.rs` sets the globals that say where things are, and takes exports as the names of functions.
;;
;; A program that fails sets `error` and traps.
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
    (local $bytes i64)
    (if (i64.ge_u (i64.extend_i32_u (local.get $number)) (i64.load (global.get $handle_count))) (then (unreachable)))
    (local.set $bytes (i64.mul (i64.extend_i32_u (local.get $n)) (i64.extend_i32_u (local.get $size))))
    (if (i64.ge_u (local.get $bytes) (i64.const 0x100000000)) (then (unreachable)))
    ;; The descriptor counts bytes.
    (call $bind (local.get $number) (i32.wrap_i64 (local.get $bytes)) (i32.const 1) (i32.const 0)))

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
