;; Accesses of lanes, and atomic operations.

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
