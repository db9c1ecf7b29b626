; What compiled code calls when it is no part of a process of ours: memory in chunks, and a way out.
; The context is that of `native::runtime` up to `offsets::AFTER`; after that come the chunk in use and the jmp_buf.
; A type `%at.FIELD` has as many bytes as precede the field; the error "out of memory" is number 268435454.

declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn

define internal void @rt_fail(ptr %ctx, i32 %site) noinline cold {
  %at = getelementptr %at.jump, ptr %ctx, i64 1
  %out = load ptr, ptr %at
  %status = add i32 %site, 1
  call void @longjmp(ptr %out, i32 %status)
  unreachable
}

; All threads of the group are in the lanes of one call.
define internal void @rt_barrier(ptr %ctx) {
  ret void
}

; A chunk is its predecessor, its end, and memory. Chunks double in size. Memory that fills a line of a cache begins
; with one, since vectors that cross lines take twice as long.
define internal ptr @rt_alloc(ptr %ctx, i64 %bytes) noinline {
  %more = add i64 %bytes, 15
  %n = and i64 %more, -16
  %top.at = getelementptr %at.top, ptr %ctx, i64 1
  %end.at = getelementptr %at.end, ptr %ctx, i64 1
  %base.at = getelementptr %at.base, ptr %ctx, i64 1
  %chunk.at = getelementptr %at.chunk, ptr %ctx, i64 1
  %top = load i64, ptr %top.at
  %end = load i64, ptr %end.at
  %is.line = icmp uge i64 %n, 64
  %top.up = add i64 %top, 48
  %top.line = and i64 %top.up, -64
  %from = select i1 %is.line, i64 %top.line, i64 %top
  %some = icmp ule i64 %from, %end
  %room = sub i64 %end, %from
  %enough = icmp ule i64 %n, %room
  %fits = and i1 %some, %enough
  br i1 %fits, label %here, label %next
here:
  %after = add i64 %from, %n
  store i64 %after, ptr %top.at
  %old = inttoptr i64 %from to ptr
  ret ptr %old
next:
  %base = load i64, ptr %base.at
  %size = sub i64 %end, %base
  %double = shl i64 %size, 1
  %small = icmp ult i64 %double, 65536
  %least = select i1 %small, i64 65536, i64 %double
  %need = add i64 %n, 48
  %short = icmp ult i64 %least, %need
  %want = select i1 %short, i64 %need, i64 %least
  %total = add i64 %want, 32
  %huge = icmp ugt i64 %n, 68719476736
  br i1 %huge, label %none, label %ask
ask:
  %raw = call ptr @malloc(i64 %total)
  %null = icmp eq ptr %raw, null
  br i1 %null, label %none, label %got
none:
  call void @rt_fail(ptr %ctx, i32 268435454)
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
  %first.up = add i64 %first, 48
  %first.line = and i64 %first.up, -64
  %begin = select i1 %is.line, i64 %first.line, i64 %first
  %then = add i64 %begin, %n
  store i64 %then, ptr %top.at
  %new = inttoptr i64 %begin to ptr
  ret ptr %new
}

; Gives back what was handed out since the mark; 0 is the mark of the start.
define internal void @rt_release(ptr %ctx, ptr %mark.ptr) noinline {
entry:
  %mark = ptrtoint ptr %mark.ptr to i64
  %top.at = getelementptr %at.top, ptr %ctx, i64 1
  %end.at = getelementptr %at.end, ptr %ctx, i64 1
  %base.at = getelementptr %at.base, ptr %ctx, i64 1
  %chunk.at = getelementptr %at.chunk, ptr %ctx, i64 1
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
  %chunk.at = getelementptr %at.chunk, ptr %ctx, i64 1
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
