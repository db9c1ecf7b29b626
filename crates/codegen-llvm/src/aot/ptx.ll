; What kernels of NVIDIA's devices call: errors, barriers, waves, atomic operations.
; The context is that of `native::runtime` up to `offsets::AFTER`, where the address of the error words is.
; See `runtime.ll` for the types `%at.FIELD`.

declare void @llvm.nvvm.barrier0()
declare i32 @llvm.umin.i32(i32, i32)
declare void @llvm.nvvm.bar.warp.sync(i32)
declare i32 @llvm.nvvm.match.any.sync.i32(i32, i32)
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()

; Fills the context of a thread of a group of this size; returns the number of the thread in the group.
define internal i64 @rt_enter(ptr %ctx, i32 %x, i32 %y, i32 %z) alwaysinline {
  %size.at = getelementptr %at.size, ptr %ctx, i64 1
  %group.at = getelementptr %at.group, ptr %ctx, i64 1
  %t.x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %g.x = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %size.x = getelementptr i32, ptr %size.at, i64 0
  store i32 %x, ptr %size.x
  %group.x = getelementptr i32, ptr %group.at, i64 0
  store i32 %g.x, ptr %group.x
  %t.y = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %g.y = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %size.y = getelementptr i32, ptr %size.at, i64 1
  store i32 %y, ptr %size.y
  %group.y = getelementptr i32, ptr %group.at, i64 1
  store i32 %g.y, ptr %group.y
  %t.z = call i32 @llvm.nvvm.read.ptx.sreg.tid.z()
  %g.z = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %size.z = getelementptr i32, ptr %size.at, i64 2
  store i32 %z, ptr %size.z
  %group.z = getelementptr i32, ptr %group.at, i64 2
  store i32 %g.z, ptr %group.z
  %row = mul i32 %t.z, %y
  %row.y = add i32 %row, %t.y
  %row.x = mul i32 %row.y, %x
  %index = add i32 %row.x, %t.x
  %start = zext i32 %index to i64
  %xy = mul i32 %x, %y
  %threads = mul i32 %xy, %z
  ; A wave consists of up to 32 threads, as many as the group has from the wave's first thread on.
  %first = and i32 %index, -32
  %from.here = sub i32 %threads, %first
  %lanes = call i32 @llvm.umin.i32(i32 %from.here, i32 32)
  %others = sub i32 32, %lanes
  %wave = lshr i32 -1, %others
  %mask.at = getelementptr %at.mask, ptr %ctx, i64 1
  store i32 %wave, ptr %mask.at
  ret i64 %start
}

; True for the first of several groups.
define internal i1 @rt_is_first_of_many() alwaysinline {
  %g.x = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %n.x = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %g.y = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %n.y = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %g.z = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %n.z = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
  %g.xy = or i32 %g.x, %g.y
  %g.xyz = or i32 %g.xy, %g.z
  %is.first = icmp eq i32 %g.xyz, 0
  %n.xy = or i32 %n.x, %n.y
  %n.xyz = or i32 %n.xy, %n.z
  %several = icmp ne i32 %n.xyz, 1
  %both = and i1 %is.first, %several
  ret i1 %both
}

; Clears memory of the group: each thread every `threads`th word.
define internal void @rt_clear_shared(ptr addrspace(3) %memory, i64 %words, i64 %start, i64 %threads) alwaysinline {
begin:
  br label %test
test:
  %word = phi i64 [ %start, %begin ], [ %next, %clear ]
  %more = icmp ult i64 %word, %words
  br i1 %more, label %clear, label %done
clear:
  %at = getelementptr i32, ptr addrspace(3) %memory, i64 %word
  store i32 0, ptr addrspace(3) %at, align 4
  %next = add i64 %word, %threads
  br label %test
done:
  ret void
}

; The first error is kept, with the thread; the thread ends.
define internal void @rt_fail(ptr %ctx, i32 %site) noinline cold {
  %error.at = getelementptr %at.error, ptr %ctx, i64 1
  %error = load ptr, ptr %error.at
  %status = add i32 %site, 1
  %pair = cmpxchg ptr %error, i32 0, i32 %status monotonic monotonic
  %first = extractvalue { i32, i1 } %pair, 1
  br i1 %first, label %tell, label %end
tell:
  %thread.at = getelementptr %at.thread, ptr %ctx, i64 1
  %to = getelementptr i8, ptr %error, i64 4
  call void @llvm.memcpy.p0.p0.i64(ptr align 4 %to, ptr align 4 %thread.at, i64 12, i1 false)
  br label %end
end:
  call void asm sideeffect "exit;", ""()
  unreachable
}

define internal void @rt_not_finite(ptr %ctx, i32 %site, ptr %what) noinline cold {
  call void @rt_fail(ptr %ctx, i32 %site)
  ret void
}

; A record in the log: the number of the `printf`, the thread, the operands. What does not fit is counted only.
define internal void @rt_printf(ptr %ctx, i32 %site, ptr %words) noinline {
  %log.at = getelementptr %at.log, ptr %ctx, i64 1
  %log = load ptr, ptr %log.at
  %room.at = getelementptr %at.logwords, ptr %ctx, i64 1
  %room = load i64, ptr %room.at
  %index = zext i32 %site to i64
  %n.at = getelementptr i32, ptr @rt_operands, i64 %index
  %n = load i32, ptr %n.at
  %wide = zext i32 %n to i64
  %bytes = shl i64 %wide, 3
  %pairs = shl i64 %wide, 1
  %total = add i64 %pairs, 4
  %start = atomicrmw add ptr %log, i64 %total monotonic
  %end = add i64 %start, %total
  %fits = icmp ule i64 %end, %room
  br i1 %fits, label %write, label %done
write:
  %after = add i64 %start, 2
  %record = getelementptr i32, ptr %log, i64 %after
  %number = add i32 %site, 1
  store i32 %number, ptr %record
  %thread.at = getelementptr %at.thread, ptr %ctx, i64 1
  %thread = getelementptr i32, ptr %record, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr align 4 %thread, ptr align 4 %thread.at, i64 12, i1 false)
  %operands = getelementptr i32, ptr %record, i64 4
  call void @llvm.memcpy.p0.p0.i64(ptr align 4 %operands, ptr align 8 %words, i64 %bytes, i1 false)
  br label %done
done:
  ret void
}

define internal void @rt_barrier(ptr %ctx) convergent alwaysinline {
  call void @llvm.nvvm.barrier0() convergent
  ret void
}

; The lanes that are together and go the same way; gives those that were together.
define internal i32 @rt_part(ptr %ctx, i32 %way) convergent alwaysinline {
  %mask.at = getelementptr %at.mask, ptr %ctx, i64 1
  %mask = load i32, ptr %mask.at
  %same = call i32 @llvm.nvvm.match.any.sync.i32(i32 %mask, i32 %way) convergent
  store i32 %same, ptr %mask.at
  ret i32 %mask
}

define internal i32 @rt_together(ptr %ctx) alwaysinline {
  %mask.at = getelementptr %at.mask, ptr %ctx, i64 1
  %mask = load i32, ptr %mask.at
  ret i32 %mask
}

define internal void @rt_rejoin(ptr %ctx, i32 %mask) alwaysinline {
  %mask.at = getelementptr %at.mask, ptr %ctx, i64 1
  store i32 %mask, ptr %mask.at
  ret void
}

; What each lane that is together with this one gives, zeros for the others; and the mask. Memory is seen by all as before.
define internal i32 @rt_wave(ptr %ctx, ptr %from, i64 %bytes, ptr %to) convergent {
  %mask.at = getelementptr %at.mask, ptr %ctx, i64 1
  %mask = load i32, ptr %mask.at
  call void @llvm.nvvm.bar.warp.sync(i32 %mask) convergent
  %low = and i64 %bytes, 3
  %in.words = icmp eq i64 %low, 0
  br label %units
units:
  %at = phi i64 [ 0, %0 ], [ %at.next, %unit.done ]
  %more = icmp ult i64 %at, %bytes
  br i1 %more, label %unit, label %done
unit:
  %place = getelementptr i8, ptr %from, i64 %at
  br i1 %in.words, label %word, label %byte
word:
  %x.word = load i32, ptr %place, align 1
  br label %give
byte:
  %x.byte = load i8, ptr %place
  %x.wide = zext i8 %x.byte to i32
  br label %give
give:
  %x = phi i32 [ %x.word, %word ], [ %x.wide, %byte ]
  br label %lane
lane:
  %k = phi i32 [ 0, %give ], [ %k.next, %lane.done ]
  %own = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 %mask, i32 %x, i32 %k, i32 31) convergent
  %bit = shl i32 1, %k
  %has = and i32 %mask, %bit
  %is.here = icmp ne i32 %has, 0
  %y = select i1 %is.here, i32 %own, i32 0
  %k.wide = zext i32 %k to i64
  %row = mul i64 %k.wide, %bytes
  %column = add i64 %row, %at
  %target = getelementptr i8, ptr %to, i64 %column
  br i1 %in.words, label %put.word, label %put.byte
put.word:
  store i32 %y, ptr %target
  br label %lane.done
put.byte:
  %y.byte = trunc i32 %y to i8
  store i8 %y.byte, ptr %target
  br label %lane.done
lane.done:
  %k.next = add i32 %k, 1
  %more.lanes = icmp ult i32 %k.next, 32
  br i1 %more.lanes, label %lane, label %unit.done
unit.done:
  %step = select i1 %in.words, i64 4, i64 1
  %at.next = add i64 %at, %step
  br label %units
done:
  call void @llvm.nvvm.bar.warp.sync(i32 %mask) convergent
  ret i32 %mask
}

; The product of 16 rows and 8 columns by matrix units; each of the ten words of 8 bytes has a register of 32 bits.
define internal void @rt_multiply(ptr %ctx, i64 %kind, ptr %words) convergent alwaysinline {
  %at.a1 = getelementptr i8, ptr %words, i64 8
  %at.a2 = getelementptr i8, ptr %words, i64 16
  %at.a3 = getelementptr i8, ptr %words, i64 24
  %at.b0 = getelementptr i8, ptr %words, i64 32
  %at.b1 = getelementptr i8, ptr %words, i64 40
  %at.c0 = getelementptr i8, ptr %words, i64 48
  %at.c1 = getelementptr i8, ptr %words, i64 56
  %at.c2 = getelementptr i8, ptr %words, i64 64
  %at.c3 = getelementptr i8, ptr %words, i64 72
  %a0 = load i32, ptr %words
  %a1 = load i32, ptr %at.a1
  %a2 = load i32, ptr %at.a2
  %a3 = load i32, ptr %at.a3
  %b0 = load i32, ptr %at.b0
  %b1 = load i32, ptr %at.b1
  switch i64 %kind, label %u8 [ i64 0, label %f16 i64 1, label %bf16 i64 2, label %i8 ]
f16:
  %c0.f16 = load float, ptr %at.c0
  %c1.f16 = load float, ptr %at.c1
  %c2.f16 = load float, ptr %at.c2
  %c3.f16 = load float, ptr %at.c3
  %d.f16 = call { float, float, float, float } asm "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};", "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f"(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, float %c0.f16, float %c1.f16, float %c2.f16, float %c3.f16) convergent
  br label %floats
bf16:
  %c0.bf16 = load float, ptr %at.c0
  %c1.bf16 = load float, ptr %at.c1
  %c2.bf16 = load float, ptr %at.c2
  %c3.bf16 = load float, ptr %at.c3
  %d.bf16 = call { float, float, float, float } asm "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};", "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f"(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, float %c0.bf16, float %c1.bf16, float %c2.bf16, float %c3.bf16) convergent
  br label %floats
floats:
  %f = phi { float, float, float, float } [ %d.f16, %f16 ], [ %d.bf16, %bf16 ]
  %f0 = extractvalue { float, float, float, float } %f, 0
  %f1 = extractvalue { float, float, float, float } %f, 1
  %f2 = extractvalue { float, float, float, float } %f, 2
  %f3 = extractvalue { float, float, float, float } %f, 3
  store float %f0, ptr %at.c0
  store float %f1, ptr %at.c1
  store float %f2, ptr %at.c2
  store float %f3, ptr %at.c3
  ret void
i8:
  %c0.i8 = load i32, ptr %at.c0
  %c1.i8 = load i32, ptr %at.c1
  %c2.i8 = load i32, ptr %at.c2
  %c3.i8 = load i32, ptr %at.c3
  %d.i8 = call { i32, i32, i32, i32 } asm "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};", "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r"(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, i32 %c0.i8, i32 %c1.i8, i32 %c2.i8, i32 %c3.i8) convergent
  br label %integers
u8:
  %c0.u8 = load i32, ptr %at.c0
  %c1.u8 = load i32, ptr %at.c1
  %c2.u8 = load i32, ptr %at.c2
  %c3.u8 = load i32, ptr %at.c3
  %d.u8 = call { i32, i32, i32, i32 } asm "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};", "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r"(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, i32 %c0.u8, i32 %c1.u8, i32 %c2.u8, i32 %c3.u8) convergent
  br label %integers
integers:
  %i = phi { i32, i32, i32, i32 } [ %d.i8, %i8 ], [ %d.u8, %u8 ]
  %i0 = extractvalue { i32, i32, i32, i32 } %i, 0
  %i1 = extractvalue { i32, i32, i32, i32 } %i, 1
  %i2 = extractvalue { i32, i32, i32, i32 } %i, 2
  %i3 = extractvalue { i32, i32, i32, i32 } %i, 3
  store i32 %i0, ptr %at.c0
  store i32 %i1, ptr %at.c1
  store i32 %i2, ptr %at.c2
  store i32 %i3, ptr %at.c3
  ret void
}

; Operations on 8 and 16 bits: in the word that holds them, until nobody came between.
define internal i64 @rt_narrow(ptr %at, i32 %op, i32 %kind, i64 %x.wide, i64 %compare.wide) {
  %x = trunc i64 %x.wide to i32
  %compare = trunc i64 %compare.wide to i32
  %is.bool = icmp eq i32 %kind, 0
  %is.i8 = icmp eq i32 %kind, 1
  %is.i16 = icmp eq i32 %kind, 2
  %is.u8 = icmp eq i32 %kind, 5
  %is.half = icmp eq i32 %kind, 9
  %some.byte = or i1 %is.bool, %is.i8
  %is.byte = or i1 %some.byte, %is.u8
  %is.signed = or i1 %is.i8, %is.i16
  %mask = select i1 %is.byte, i32 255, i32 65535
  %unused = select i1 %is.byte, i32 24, i32 16
  %place = ptrtoint ptr %at to i64
  %low = and i64 %place, 3
  %start = sub i64 %place, %low
  %word = inttoptr i64 %start to ptr
  %low.narrow = trunc i64 %low to i32
  %shift = shl i32 %low.narrow, 3
  %there = shl i32 %mask, %shift
  %others = xor i32 %there, -1
  %xm = and i32 %x, %mask
  %cm = and i32 %compare, %mask
  %x.up = shl i32 %x, %unused
  %xs = ashr i32 %x.up, %unused
  %x.bits = trunc i32 %xm to i16
  %xh = bitcast i16 %x.bits to half
  %first = load volatile i32, ptr %word
  br label %again
again:
  %old = phi i32 [ %first, %0 ], [ %found, %again ]
  %down = lshr i32 %old, %shift
  %field = and i32 %down, %mask
  %field.up = shl i32 %field, %unused
  %fs = ashr i32 %field.up, %unused
  %field.bits = trunc i32 %field to i16
  %fh = bitcast i16 %field.bits to half
  %sum.int = add i32 %field, %xm
  %sum.half = fadd half %fh, %xh
  %sum.bits = bitcast half %sum.half to i16
  %sum.wide = zext i16 %sum.bits to i32
  %sum = select i1 %is.half, i32 %sum.wide, i32 %sum.int
  %lt.u = icmp ult i32 %xm, %field
  %lt.s = icmp slt i32 %xs, %fs
  %lt.h = fcmp olt half %xh, %fh
  %gt.h = fcmp ogt half %xh, %fh
  %nan = fcmp uno half %fh, %fh
  %lt.int = select i1 %is.signed, i1 %lt.s, i1 %lt.u
  %less = select i1 %is.half, i1 %lt.h, i1 %lt.int
  %same = icmp eq i32 %xm, %field
  %le.int = or i1 %lt.int, %same
  %gt.int = xor i1 %le.int, true
  %more = select i1 %is.half, i1 %gt.h, i1 %gt.int
  %was.nan = and i1 %is.half, %nan
  %take.min = or i1 %less, %was.nan
  %take.max = or i1 %more, %was.nan
  %min = select i1 %take.min, i32 %xm, i32 %field
  %max = select i1 %take.max, i32 %xm, i32 %field
  %and = and i32 %field, %xm
  %or = or i32 %field, %xm
  %xor = xor i32 %field, %xm
  %is.same = icmp eq i32 %field, %cm
  %cas = select i1 %is.same, i32 %xm, i32 %field
  %op1 = icmp eq i32 %op, 1
  %op2 = icmp eq i32 %op, 2
  %op3 = icmp eq i32 %op, 3
  %op4 = icmp eq i32 %op, 4
  %op5 = icmp eq i32 %op, 5
  %op6 = icmp eq i32 %op, 6
  %op7 = icmp eq i32 %op, 7
  %r1 = select i1 %op1, i32 %min, i32 %sum
  %r2 = select i1 %op2, i32 %max, i32 %r1
  %r3 = select i1 %op3, i32 %and, i32 %r2
  %r4 = select i1 %op4, i32 %or, i32 %r3
  %r5 = select i1 %op5, i32 %xor, i32 %r4
  %r6 = select i1 %op6, i32 %xm, i32 %r5
  %r7 = select i1 %op7, i32 %cas, i32 %r6
  %new.field = and i32 %r7, %mask
  %up = shl i32 %new.field, %shift
  %kept = and i32 %old, %others
  %new = or i32 %kept, %up
  %pair = cmpxchg ptr %word, i32 %old, i32 %new monotonic monotonic
  %found = extractvalue { i32, i1 } %pair, 0
  %done = extractvalue { i32, i1 } %pair, 1
  br i1 %done, label %end, label %again
end:
  %result = zext i32 %field to i64
  ret i64 %result
}

; What has no instruction: exchange and compare-exchange of floats, their minimum and maximum (a NaN gives way).
define internal i64 @rt_atomic(ptr %at, i32 %code, i64 %x, i64 %compare) alwaysinline {
  %op = lshr i32 %code, 8
  %kind = and i32 %code, 255
  %kind.bit = shl i32 1, %kind
  %narrow.kinds = and i32 %kind.bit, 615
  %is.narrow = icmp ne i32 %narrow.kinds, 0
  br i1 %is.narrow, label %small, label %large
small:
  %by.word = call i64 @rt_narrow(ptr %at, i32 %op, i32 %kind, i64 %x, i64 %compare)
  ret i64 %by.word
large:
  %is.min = icmp eq i32 %op, 1
  %is.exchange = icmp eq i32 %op, 6
  %is.compare = icmp eq i32 %op, 7
  %i64 = icmp eq i32 %kind, 4
  %u64 = icmp eq i32 %kind, 8
  %f64 = icmp eq i32 %kind, 11
  %some = or i1 %i64, %u64
  %wide = or i1 %some, %f64
  br i1 %wide, label %wide.begin, label %narrow.begin
narrow.begin:
  %x32 = trunc i64 %x to i32
  %c32 = trunc i64 %compare to i32
  %fx = bitcast i32 %x32 to float
  %first32 = load volatile i32, ptr %at
  br label %narrow
narrow:
  %old32 = phi i32 [ %first32, %narrow.begin ], [ %found32, %narrow ]
  %fo = bitcast i32 %old32 to float
  %lt32 = fcmp olt float %fx, %fo
  %gt32 = fcmp ogt float %fx, %fo
  %nan32 = fcmp uno float %fo, %fo
  %better32 = select i1 %is.min, i1 %lt32, i1 %gt32
  %take32 = or i1 %better32, %nan32
  %most32 = select i1 %take32, i32 %x32, i32 %old32
  %same32 = icmp eq i32 %old32, %c32
  %if32 = select i1 %same32, i32 %x32, i32 %old32
  %other32 = select i1 %is.compare, i32 %if32, i32 %most32
  %new32 = select i1 %is.exchange, i32 %x32, i32 %other32
  %pair32 = cmpxchg ptr %at, i32 %old32, i32 %new32 monotonic monotonic
  %found32 = extractvalue { i32, i1 } %pair32, 0
  %done32 = extractvalue { i32, i1 } %pair32, 1
  br i1 %done32, label %narrow.end, label %narrow
narrow.end:
  %result32 = zext i32 %old32 to i64
  ret i64 %result32
wide.begin:
  %dx = bitcast i64 %x to double
  %first64 = load volatile i64, ptr %at
  br label %wide.loop
wide.loop:
  %old64 = phi i64 [ %first64, %wide.begin ], [ %found64, %wide.loop ]
  %do = bitcast i64 %old64 to double
  %lt64 = fcmp olt double %dx, %do
  %gt64 = fcmp ogt double %dx, %do
  %nan64 = fcmp uno double %do, %do
  %better64 = select i1 %is.min, i1 %lt64, i1 %gt64
  %take64 = or i1 %better64, %nan64
  %most64 = select i1 %take64, i64 %x, i64 %old64
  %same64 = icmp eq i64 %old64, %compare
  %if64 = select i1 %same64, i64 %x, i64 %old64
  %other64 = select i1 %is.compare, i64 %if64, i64 %most64
  %new64 = select i1 %is.exchange, i64 %x, i64 %other64
  %pair64 = cmpxchg ptr %at, i64 %old64, i64 %new64 monotonic monotonic
  %found64 = extractvalue { i64, i1 } %pair64, 0
  %done64 = extractvalue { i64, i1 } %pair64, 1
  br i1 %done64, label %wide.end, label %wide.loop
wide.end:
  ret i64 %old64
}

