; The memory of stacks, and accesses of lanes, for libraries.

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

define internal ptr @rt_stack_bundle(ptr %ctx, ptr %ptrs, i64 %n, i64 %len, i64 %cap) {
entry:
  %all = call ptr @rt_elements(ptr %ctx, i64 %n, i64 24)
  br label %one
one:
  %k = phi i64 [ 0, %entry ], [ %next, %one ]
  %from = getelementptr ptr, ptr %ptrs, i64 %k
  %ptr = load ptr, ptr %from
  %by = mul i64 %k, 24
  %at = getelementptr i8, ptr %all, i64 %by
  store ptr %ptr, ptr %at
  %len.at = getelementptr i8, ptr %at, i64 8
  store i64 %len, ptr %len.at
  %cap.at = getelementptr i8, ptr %at, i64 16
  store i64 %cap, ptr %cap.at
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %one, label %done
done:
  ret ptr %all
}

; Numbers at the addresses of the lanes of the mask, zeros for the others; and the other way round.
define internal void @rt_gather(ptr %places, ptr %to, i32 %mask, i64 %bytes) noinline cold {
entry:
  %all = mul i64 %bytes, ptrtoint (ptr getelementptr (%at.lanes, ptr null, i64 1) to i64)
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
  %places = alloca %lanes, align 16
  %found = call i32 @rt_elements_at(ptr %numbers, ptr %places, i32 %mask, ptr %first, i64 %count, i64 %size, i32 %signed)
  call void @rt_gather(ptr %places, ptr %to, i32 %found, i64 %bytes)
  ret void
}

define internal void @rt_scatter_elements(ptr %numbers, ptr %from, i32 %mask, i64 %bytes, ptr %first, i64 %count, i64 %size, i32 %signed) noinline cold {
  %places = alloca %lanes, align 16
  %found = call i32 @rt_elements_at(ptr %numbers, ptr %places, i32 %mask, ptr %first, i64 %count, i64 %size, i32 %signed)
  call void @rt_scatter(ptr %places, ptr %from, i32 %found, i64 %bytes)
  ret void
}
declare i32 @llvm.cttz.i32(i32, i1)
