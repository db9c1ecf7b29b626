// A few words for elements of the page.

/** The element of this identifier. */
export function byId<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found as T;
}

type Properties<T> = { [K in keyof T]?: T[K] };

/** A new element. Text is never read as HTML. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties<HTMLElementTagNameMap[K]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** A labelled control. */
export function field(label: string, control: HTMLElement): HTMLLabelElement {
  return make("label", { className: "field" }, make("span", { textContent: label }), control);
}

/** A list of choices. */
export function choice(names: readonly string[]): HTMLSelectElement {
  const select = make("select");
  options(select, names);
  return select;
}

/** Gives a list other choices, and keeps the one that is made if it is still there. */
export function options(select: HTMLSelectElement, names: readonly string[]): void {
  const before = select.value;
  select.replaceChildren(...names.map((name) => make("option", { value: name, textContent: name })));
  if (names.includes(before)) select.value = before;
}

const pictures = new Map<string, string>();

/** The address of a picture's bytes; `key` names the place, whose last picture is forgotten. */
export function pictureUrl(key: string, bytes: Uint8Array, type = "image/png"): string {
  const before = pictures.get(key);
  if (before) URL.revokeObjectURL(before);
  const url = URL.createObjectURL(new Blob([bytes as Uint8Array<ArrayBuffer>], { type }));
  pictures.set(key, url);
  return url;
}
