// Links that hold a program: its text and the open tab, compressed, after the `#`, which no server sees.

/** What a link holds. */
export interface Held {
  text: string;
  tab: string;
}

async function through(stream: CompressionStream | DecompressionStream, bytes: Uint8Array): Promise<Uint8Array> {
  const writer = stream.writable.getWriter();
  const written = writer.write(bytes as Uint8Array<ArrayBuffer>).then(() => writer.close());
  const [buffer] = await Promise.all([new Response(stream.readable).arrayBuffer(), written]);
  return new Uint8Array(buffer);
}

/** The part after the `#`. */
export async function pack(held: Held): Promise<string> {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(held)));
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** What is held by the part after the `#`, if it is a link of this page. */
export async function unpack(hash: string): Promise<Held | undefined> {
  try {
    const text = atob(hash.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const held: unknown = JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes)));
    if (typeof held !== "object" || held === null) return undefined;
    const { text: program, tab } = held as Record<string, unknown>;
    return typeof program === "string" && typeof tab === "string" ? { text: program, tab } : undefined;
  } catch {
    return undefined;
  }
}
