; What compiled code calls when it is no part of a process of ours: memory in chunks, and a way out.
; The context is that of `native::runtime` up to CONTEXT; after that come the chunk in use and the jmp_buf.

declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn

define internal void @rt_fail(ptr %ctx, i32 %site) noinline cold {
  %at = getelementptr i8, ptr %ctx, i64 JUMP
  %out = load ptr, ptr %at
  %status = add i32 %site, 1
  call void @longjmp(ptr %out, i32 %status)
  unreachable
}

; All threads of the group are in the lanes of one call.
define internal void @rt_barrier(ptr %ctx) {
  ret void
}

; A chunk is its predecessor, its end, and memory. Chunks double in size.
define internal ptr @rt_alloc(ptr %ctx, i64 %bytes) noinline {
  %more = add i64 %bytes, 15
  %n = and i64 %more, -16
  %top.at = getelementptr i8, ptr %ctx, i64 TOP
  %end.at = getelementptr i8, ptr %ctx, i64 END
  %base.at = getelementptr i8, ptr %ctx, i64 BASE
  %chunk.at = getelementptr i8, ptr %ctx, i64 CHUNK
  %top = load i64, ptr %top.at
  %end = load i64, ptr %end.at
  %room = sub i64 %end, %top
  %fits = icmp ule i64 %n, %room
  br i1 %fits, label %here, label %next
here:
  %after = add i64 %top, %n
  store i64 %after, ptr %top.at
  %old = inttoptr i64 %top to ptr
  ret ptr %old
next:
  %base = load i64, ptr %base.at
  %size = sub i64 %end, %base
  %double = shl i64 %size, 1
  %small = icmp ult i64 %double, 65536
  %least = select i1 %small, i64 65536, i64 %double
  %short = icmp ult i64 %least, %n
  %want = select i1 %short, i64 %n, i64 %least
  %total = add i64 %want, 32
  %huge = icmp ugt i64 %n, 68719476736
  br i1 %huge, label %none, label %ask
ask:
  %raw = call ptr @malloc(i64 %total)
  %null = icmp eq ptr %raw, null
  br i1 %null, label %none, label %got
none:
  call void @rt_fail(ptr %ctx, i32 MEMORY)
  unreachable
got:
  %chunk = load ptr, ptr %chunk.at
  store ptr %chunk, ptr %raw
  store ptr %raw, ptr %chunk.at
  %address = ptrtoint ptr %raw to i64
  %past = add i64 %address, 31
  %first = and i64 %past, -16
  %last = add i64 %first, %want
  %last.at = getelementptr i8, ptr %raw, i64 8
  store i64 %last, ptr %last.at
  store i64 %first, ptr %base.at
  store i64 %last, ptr %end.at
  %then = add i64 %first, %n
  store i64 %then, ptr %top.at
  %new = inttoptr i64 %first to ptr
  ret ptr %new
}

; Gives back what was handed out since the mark; 0 is the mark of the start.
define internal void @rt_release(ptr %ctx, ptr %mark.ptr) noinline {
entry:
  %mark = ptrtoint ptr %mark.ptr to i64
  %top.at = getelementptr i8, ptr %ctx, i64 TOP
  %end.at = getelementptr i8, ptr %ctx, i64 END
  %base.at = getelementptr i8, ptr %ctx, i64 BASE
  %chunk.at = getelementptr i8, ptr %ctx, i64 CHUNK
  br label %look
look:
  %base = load i64, ptr %base.at
  %end = load i64, ptr %end.at
  %low = icmp uge i64 %mark, %base
  %high = icmp ule i64 %mark, %end
  %in = and i1 %low, %high
  %chunk = load ptr, ptr %chunk.at
  %last = icmp eq ptr %chunk, null
  %stop = or i1 %in, %last
  br i1 %stop, label %done, label %drop
drop:
  %before = load ptr, ptr %chunk
  call void @free(ptr %chunk)
  store ptr %before, ptr %chunk.at
  %none = icmp eq ptr %before, null
  br i1 %none, label %empty, label %back
empty:
  store i64 0, ptr %base.at
  store i64 0, ptr %end.at
  br label %look
back:
  %end.of = getelementptr i8, ptr %before, i64 8
  %its.end = load i64, ptr %end.of
  %address = ptrtoint ptr %before to i64
  %past = add i64 %address, 31
  %its.base = and i64 %past, -16
  store i64 %its.base, ptr %base.at
  store i64 %its.end, ptr %end.at
  br label %look
done:
  store i64 %mark, ptr %top.at
  ret void
}

define internal void @rt_aot_end(ptr %ctx) {
entry:
  %chunk.at = getelementptr i8, ptr %ctx, i64 CHUNK
  br label %look
look:
  %chunk = load ptr, ptr %chunk.at
  %none = icmp eq ptr %chunk, null
  br i1 %none, label %done, label %drop
drop:
  %before = load ptr, ptr %chunk
  store ptr %before, ptr %chunk.at
  call void @free(ptr %chunk)
  br label %look
done:
  ret void
}

define internal ptr @rt_elements(ptr %ctx, i64 %n, i64 %size) {
  %zero = icmp eq i64 %n, 0
  %least = select i1 %zero, i64 1, i64 %n
  %product = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %least, i64 %size)
  %bytes = extractvalue { i64, i1 } %product, 0
  %over = extractvalue { i64, i1 } %product, 1
  %all = select i1 %over, i64 -32, i64 %bytes
  %at = call ptr @rt_alloc(ptr %ctx, i64 %all)
  ret ptr %at
}
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)

define internal ptr @rt_stack_header(ptr %ctx, ptr %ptr, i64 %len, i64 %cap) {
  %at = call ptr @rt_alloc(ptr %ctx, i64 24)
  store ptr %ptr, ptr %at
  %len.at = getelementptr i8, ptr %at, i64 8
  store i64 %len, ptr %len.at
  %cap.at = getelementptr i8, ptr %at, i64 16
  store i64 %cap, ptr %cap.at
  ret ptr %at
}

define internal ptr @rt_stack_new(ptr %ctx, i64 %n, i64 %size) {
  %ptr = call ptr @rt_elements(ptr %ctx, i64 %n, i64 %size)
  %at = call ptr @rt_stack_header(ptr %ctx, ptr %ptr, i64 %n, i64 %n)
  ret ptr %at
}

define internal ptr @rt_stack_room(ptr %ctx, ptr %ptr, i64 %len, i64 %cap, i64 %size) {
  %to = call ptr @rt_elements(ptr %ctx, i64 %cap, i64 %size)
  %bytes = mul i64 %len, %size
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %ptr, i64 %bytes, i1 false)
  ret ptr %to
}

define internal void @rt_copy(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}

define internal void @rt_clear(ptr %to, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %n, i1 false)
  ret void
}

; Numbers at the addresses of the lanes of the mask, zeros for the others; and the other way round.
define internal void @rt_gather(ptr %places, ptr %to, i32 %mask, i64 %bytes) noinline cold {
entry:
  %all = mul i64 %bytes, LANES
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %all, i1 false)
  br label %look
look:
  %left = phi i32 [ %mask, %entry ], [ %fewer, %one ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %one
one:
  %lane32 = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %lane = zext i32 %lane32 to i64
  %place.at = getelementptr ptr, ptr %places, i64 %lane
  %place = load ptr, ptr %place.at
  %by = mul i64 %lane, %bytes
  %number = getelementptr i8, ptr %to, i64 %by
  call void @llvm.memcpy.p0.p0.i64(ptr %number, ptr %place, i64 %bytes, i1 false)
  %less = sub i32 %left, 1
  %fewer = and i32 %left, %less
  br label %look
done:
  ret void
}

define internal void @rt_scatter(ptr %places, ptr %from, i32 %mask, i64 %bytes) noinline cold {
entry:
  br label %look
look:
  %left = phi i32 [ %mask, %entry ], [ %fewer, %one ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %one
one:
  %lane32 = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %lane = zext i32 %lane32 to i64
  %place.at = getelementptr ptr, ptr %places, i64 %lane
  %place = load ptr, ptr %place.at
  %by = mul i64 %lane, %bytes
  %number = getelementptr i8, ptr %from, i64 %by
  call void @llvm.memcpy.p0.p0.i64(ptr %place, ptr %number, i64 %bytes, i1 false)
  %less = sub i32 %left, 1
  %fewer = and i32 %left, %less
  br label %look
done:
  ret void
}

; The same by the numbers of elements: their addresses first, and which of them are there.
define internal i32 @rt_elements_at(ptr %numbers, ptr %places, i32 %mask, ptr %first, i64 %count, i64 %size, i32 %signed) noinline cold {
entry:
  %is.signed = icmp ne i32 %signed, 0
  br label %look
look:
  %left = phi i32 [ %mask, %entry ], [ %fewer, %one ]
  %found = phi i32 [ 0, %entry ], [ %more, %one ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %one
one:
  %lane32 = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %lane = zext i32 %lane32 to i64
  %number.at = getelementptr i32, ptr %numbers, i64 %lane
  %number = load i32, ptr %number.at
  %as.signed = sext i32 %number to i64
  %as.unsigned = zext i32 %number to i64
  %wide = select i1 %is.signed, i64 %as.signed, i64 %as.unsigned
  %in = icmp ult i64 %wide, %count
  %bit = shl i32 1, %lane32
  %with = or i32 %found, %bit
  %more = select i1 %in, i32 %with, i32 %found
  %by = mul i64 %wide, %size
  %place = getelementptr i8, ptr %first, i64 %by
  %place.at = getelementptr ptr, ptr %places, i64 %lane
  store ptr %place, ptr %place.at
  %less = sub i32 %left, 1
  %fewer = and i32 %left, %less
  br label %look
done:
  ret i32 %found
}

define internal void @rt_gather_elements(ptr %numbers, ptr %to, i32 %mask, i64 %bytes, ptr %first, i64 %count, i64 %size, i32 %signed) noinline cold {
  %places = alloca [LANES x ptr], align 16
  %found = call i32 @rt_elements_at(ptr %numbers, ptr %places, i32 %mask, ptr %first, i64 %count, i64 %size, i32 %signed)
  call void @rt_gather(ptr %places, ptr %to, i32 %found, i64 %bytes)
  ret void
}

define internal void @rt_scatter_elements(ptr %numbers, ptr %from, i32 %mask, i64 %bytes, ptr %first, i64 %count, i64 %size, i32 %signed) noinline cold {
  %places = alloca [LANES x ptr], align 16
  %found = call i32 @rt_elements_at(ptr %numbers, ptr %places, i32 %mask, ptr %first, i64 %count, i64 %size, i32 %signed)
  call void @rt_scatter(ptr %places, ptr %from, i32 %found, i64 %bytes)
  ret void
}
declare i32 @llvm.cttz.i32(i32, i1)
