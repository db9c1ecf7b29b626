// What the compiler's module imports as `pullback_host` (crates/run/src/wasm/browser.rs): it compiles kernels to modules of
// their own, and these run here. Modules and instances are numbers; the memory of each instance is its own, so that a
// kernel reaches nothing else.

interface Code {
  module: WebAssembly.Module;
  /** The number of operands of each place that prints. */
  operands: Uint32Array;
}

interface Instance {
  exports: WebAssembly.Exports;
  memory: WebAssembly.Memory;
  /** What was printed: for each time the number of the place, and its operands. */
  printed: bigint[];
}

/** The compiled kernels of one run of the compiler. */
export class Kernels {
  /** The memory of the compiler. */
  memory!: WebAssembly.Memory;
  private codes: (Code | undefined)[] = [];
  private instances: (Instance | undefined)[] = [];
  private error: Uint8Array = new Uint8Array();

  private bytes(at: number, n: number): Uint8Array {
    return new Uint8Array(this.memory.buffer, at >>> 0, n);
  }

  private text(at: number, n: number): string {
    return new TextDecoder().decode(this.bytes(at, n));
  }

  private fail(error: unknown): void {
    this.error = new TextEncoder().encode(error instanceof Error ? error.message : String(error));
  }

  private instance(number: number): Instance {
    const instance = this.instances[number];
    if (!instance) throw new Error("there is no such instance");
    return instance;
  }

  /** A range of an instance's memory. */
  private range(instance: number, at: number, n: number): Uint8Array | undefined {
    const memory = this.instance(instance).memory.buffer;
    if ((at >>> 0) + n <= memory.byteLength) return new Uint8Array(memory, at >>> 0, n);
    this.fail("an address is outside of the kernel's memory");
    return undefined;
  }

  /** The functions that the compiler imports. */
  readonly imports = {
    compile: (at: number, n: number, operands: number, places: number): number => {
      try {
        const module = new WebAssembly.Module(this.bytes(at, n).slice());
        const counts = this.bytes(operands, 4 * places).slice();
        this.codes.push({ module, operands: new Uint32Array(counts.buffer) });
        return this.codes.length - 1;
      } catch (error) {
        this.fail(error);
        return -1;
      }
    },
    drop_code: (code: number): void => {
      this.codes[code] = undefined;
    },
    instantiate: (number: number): number => {
      try {
        const code = this.codes[number];
        if (!code) throw new Error("there is no such module");
        const printed: bigint[] = [];
        const print = (_: bigint, place: number, words: bigint): void => {
          const view = new DataView(instance.memory.buffer);
          printed.push(BigInt(place));
          for (let k = 0; k < (code.operands[place] ?? 0); k++) {
            printed.push(view.getBigUint64(Number(words) + 8 * k, true));
          }
        };
        const { exports } = new WebAssembly.Instance(code.module, { pullback: { print } });
        const instance: Instance = { exports, memory: exports.memory as WebAssembly.Memory, printed };
        this.instances.push(instance);
        return this.instances.length - 1;
      } catch (error) {
        this.fail(error);
        return -1;
      }
    },
    drop_instance: (instance: number): void => {
      this.instances[instance] = undefined;
    },
    call: (instance: number, name: number, bytes: number, args: number, n: number, result: number): number => {
      try {
        const called = this.instance(instance).exports[this.text(name, bytes)] as CallableFunction;
        const numbers = new Int32Array(this.bytes(args, 4 * n).slice().buffer);
        const returned: number | undefined = called(...numbers);
        new DataView(this.memory.buffer).setInt32(result, returned ?? 0, true);
        return 0;
      } catch (error) {
        this.fail(error);
        // Browsers have no common type of error for this.
        const overflow = error instanceof RangeError || /recursion|call stack/i.test(String(error));
        return overflow ? 2 : 1;
      }
    },
    get: (instance: number, name: number, bytes: number): number => {
      const global = this.instance(instance).exports[this.text(name, bytes)] as WebAssembly.Global | undefined;
      return global ? (global.value as number) : 0;
    },
    set: (instance: number, name: number, bytes: number, value: number): void => {
      (this.instance(instance).exports[this.text(name, bytes)] as WebAssembly.Global).value = value;
    },
    read: (instance: number, at: number, to: number, n: number): number => {
      const range = this.range(instance, at, n);
      if (!range) return 1;
      this.bytes(to, n).set(range);
      return 0;
    },
    write: (instance: number, at: number, from: number, n: number): number => {
      const range = this.range(instance, at, n);
      if (!range) return 1;
      range.set(this.bytes(from, n));
      return 0;
    },
    printed_words: (instance: number): number => this.instance(instance).printed.length,
    take_printed: (instance: number, to: number): void => {
      const printed = this.instance(instance).printed;
      const view = new DataView(this.memory.buffer);
      printed.forEach((word, k) => view.setBigUint64((to >>> 0) + 8 * k, word, true));
      printed.length = 0;
    },
    error_bytes: (): number => this.error.length,
    take_error: (to: number): void => this.bytes(to, this.error.length).set(this.error),
  };
}
