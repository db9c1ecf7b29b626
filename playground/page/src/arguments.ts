// The arguments of commands, as one types them in a shell, and what a program's own comments say.

/** Splits arguments at spaces, except for those in quotes or in brackets: `--bind x=[1, 2]` are two. */
export function split(text: string): string[] {
  const args: string[] = [];
  let word = "";
  let begun = false;
  let quote = "";
  let depth = 0;
  for (const c of text) {
    if (quote) {
      if (c === quote) quote = "";
      else word += c;
    } else if (depth === 0 && (c === "'" || c === '"')) {
      [quote, begun] = [c, true];
    } else if (/\s/.test(c) && depth === 0) {
      if (begun) args.push(word);
      [word, begun] = ["", false];
    } else {
      if ("[{".includes(c)) depth += 1;
      if ("]}".includes(c)) depth = Math.max(0, depth - 1);
      [word, begun] = [word + c, true];
    }
  }
  if (begun) args.push(word);
  return args;
}

/** A number that a slider sets: `// slider: NAME FROM TO START`, for the uniform or the argument of that name. */
export interface Slider {
  name: string;
  from: number;
  to: number;
  start: number;
}

/** The lines `// NAME: …` of a program, joined. */
export function comment(text: string, name: string): string {
  const lines = text.matchAll(new RegExp(`^[ \\t]*//[ \\t]*${name}:[ \\t]*(.*)$`, "gm"));
  return [...lines].map((line) => line[1]!.trim()).join(" ");
}

/** The sliders of a program. */
export function sliders(text: string): Slider[] {
  const lines = text.matchAll(/^[ \t]*\/\/[ \t]*slider:[ \t]*(\S+)[ \t]+(\S+)[ \t]+(\S+)[ \t]+(\S+)/gm);
  return [...lines]
    .map((line) => ({ name: line[1]!, from: Number(line[2]), to: Number(line[3]), start: Number(line[4]) }))
    .filter((slider) => [slider.from, slider.to, slider.start].every(Number.isFinite) && slider.from < slider.to);
}

/** A command as one types it. */
export function shown(args: string[]): string {
  const quoted = (arg: string): string => (/^[\w@%+=:,./[\]-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`);
  return `pullback ${args.map(quoted).join(" ")}`;
}
