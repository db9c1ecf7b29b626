;; Conversions, remainders, and fused multiply-adds.

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
