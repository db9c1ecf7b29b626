// Runs a kernel on the browser's graphics processor, by the WGSL and the reflection that the compiler emits.
//
// What is bound is given as for `pullback run`, as far as that is numbers: `zeros:…` and lists.

/** A place in memory that the kernel is bound to, by the reflection. */
interface Binding {
  binding: number;
  name: string;
  kind: string;
  element_type: string;
  stride: number;
  size: number | null;
}

/** What the compiler says of a program. */
export interface Reflection {
  entry_points: { name: string; thread_group_size: number[]; bindings: number[] }[];
  bindings: Binding[];
  errors: { number: number; message: string; place: string }[];
}

/** The arguments of a run. */
export interface Launch {
  entry: string | undefined;
  groups: [number, number, number];
  /** Values by name. */
  binds: Map<string, string>;
}

/** The numbers of a buffer after the run; the shape, if it was given by one. */
export interface Content {
  name: string;
  numbers: number[];
  shape: number[] | undefined;
}

type Scalar = "float" | "int" | "uint";

/** The scalar of a type, and how many of them an element has. */
function scalars(type: string): { scalar: Scalar; n: number } | undefined {
  const found = /^(float|int|uint)([234])?$/.exec(type);
  return found ? { scalar: found[1] as Scalar, n: Number(found[2] ?? 1) } : undefined;
}

/** A value of an argument: numbers in order, and the shape of zeros. */
function parse(text: string): { numbers: number[]; shape: number[] | undefined } {
  const zeros = /^zeros:([\d,]+)$/.exec(text);
  if (zeros) {
    const shape = zeros[1]!.split(",").map(Number);
    return { numbers: new Array(shape.reduce((a, b) => a * b, 1)).fill(0), shape };
  }
  const value: unknown = JSON.parse(text);
  const numbers = (Array.isArray(value) ? value.flat(8) : [value]).map(Number);
  if (!numbers.every(Number.isFinite)) throw new Error(`\`${text}\` has values that are no numbers`);
  return { numbers, shape: undefined };
}

function put(view: DataView, at: number, scalar: Scalar, value: number): void {
  if (scalar === "float") view.setFloat32(at, value, true);
  else if (scalar === "int") view.setInt32(at, value, true);
  else view.setUint32(at, value, true);
}

function take(view: DataView, at: number, scalar: Scalar): number {
  if (scalar === "float") return view.getFloat32(at, true);
  return scalar === "int" ? view.getInt32(at, true) : view.getUint32(at, true);
}

/** The first bytes of a binding's memory. */
function bytes(binding: Binding, launch: Launch): { data: ArrayBuffer; shape: number[] | undefined } {
  const refuse = (why: string): never => {
    throw new Error(`\`${binding.name}\` ${why}; another backend runs it`);
  };
  if (binding.kind === "error_word") return { data: new ArrayBuffer(binding.stride), shape: undefined };
  if (!["storage", "read_only_storage", "uniform"].includes(binding.kind)) {
    refuse(`is memory of the kind ${binding.kind}, which this page does not give to graphics processors`);
  }
  const [texture, part] = binding.name.split(".__");
  if (part === "shape") {
    const shape = parse(launch.binds.get(texture!) ?? refuse("is not bound")).shape;
    if (!shape || shape.length < 2) return refuse("is a texture, of which this page gives only zeros of two dimensions");
    return { data: new Uint32Array([shape[1]!, shape[0]!, 1, 1]).buffer, shape: undefined };
  }
  const { scalar, n } = scalars(binding.element_type) ?? refuse(`has elements of ${binding.element_type}`);
  const { numbers, shape } = parse(launch.binds.get(texture!) ?? refuse("is not bound"));
  // `zeros:N` counts elements, and for a texture numbers.
  const isCount = shape !== undefined && part === undefined;
  const elements = isCount ? numbers.length : Math.ceil(numbers.length / n);
  const data = new ArrayBuffer(Math.max(16, elements * binding.stride, binding.size ?? 0));
  const view = new DataView(data);
  if (!shape) numbers.forEach((value, k) => put(view, Math.floor(k / n) * binding.stride + 4 * (k % n), scalar, value));
  return { data: data.slice(0, Math.max(4, elements * binding.stride)), shape };
}

/** Runs the kernel, and reads back what it may have written. */
export async function runOnDevice(wgsl: string, reflection: Reflection, launch: Launch): Promise<Content[]> {
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) throw new Error("this browser has no WebGPU, or no device for it");
  const device = await adapter.requestDevice();
  try {
    return await dispatch(device, wgsl, reflection, launch);
  } finally {
    device.destroy();
  }
}

async function dispatch(device: GPUDevice, wgsl: string, reflection: Reflection, launch: Launch): Promise<Content[]> {
  const entry = reflection.entry_points.find(({ name }) => launch.entry === undefined || name === launch.entry);
  if (!entry) throw new Error("the program has no such entry point");
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ code: wgsl });
  const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint: entry.name } });
  const bound = reflection.bindings
    .filter(({ binding }) => entry.bindings.includes(binding))
    .map((binding) => {
      const { data, shape } = bytes(binding, launch);
      const isUniform = binding.kind === "uniform";
      const usage = (isUniform ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE) | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
      const buffer = device.createBuffer({ size: Math.ceil(data.byteLength / 16) * 16, usage });
      device.queue.writeBuffer(buffer, 0, data);
      const size = isUniform ? buffer.size : data.byteLength;
      return { binding, buffer, size, shape };
    });
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: bound.map(({ binding, buffer, size }) => ({ binding: binding.binding, resource: { buffer, size } })),
  });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group);
  pass.dispatchWorkgroups(...launch.groups);
  pass.end();
  const read = bound
    .filter(({ binding }) => binding.kind === "storage" || binding.kind === "error_word")
    .map((one) => {
      const copy = device.createBuffer({ size: one.buffer.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
      encoder.copyBufferToBuffer(one.buffer, 0, copy, 0, one.buffer.size);
      return { ...one, copy };
    });
  device.queue.submit([encoder.finish()]);
  const invalid = await device.popErrorScope();
  if (invalid) throw new Error(invalid.message);
  const contents: Content[] = [];
  for (const { binding, copy, size, shape } of read) {
    await copy.mapAsync(GPUMapMode.READ);
    const view = new DataView(copy.getMappedRange().slice(0, size));
    if (binding.kind === "error_word") {
      const number = view.getUint32(0, true);
      const error = reflection.errors.find((error) => error.number === number);
      if (number) throw new Error(error ? `${error.place}: ${error.message}` : `the kernel has failed with the error ${number}`);
      continue;
    }
    const { scalar, n } = scalars(binding.element_type)!;
    const numbers: number[] = [];
    for (let at = 0; at + 4 * n <= view.byteLength; at += binding.stride) {
      for (let k = 0; k < n; k++) numbers.push(take(view, at + 4 * k, scalar));
    }
    contents.push({ name: binding.name.split(".__")[0]!, numbers, shape });
  }
  return contents;
}
