#!/usr/bin/env bash
# Builds the documentation as a site in `target/site`, by mdBook, which it installs to `target/mdbook` if the machine has none.
#
# The book is docs/, with some pages that lie outside of it. mdBook takes pages from one folder only, so a copy is made, in
# which links have the paths of the copy. An argument is another folder
# for the site. The playground, if it is built, belongs to `playground` in that folder, where this script leaves it alone.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
site=${1:-$PWD/target/site}

if command -v mdbook >/dev/null 2>&1; then
    mdbook=mdbook
else
    mdbook=$target/mdbook/bin/mdbook
    if [ ! -x "$mdbook" ]; then
        echo "mdBook is not on the path: cargo installs it to $target/mdbook"
        # Without optimisation, which would take longer than the pages do.
        CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=none cargo install mdbook --version ^0.5 --locked --debug \
            --no-default-features --features search --root "$target/mdbook" --quiet
    fi
fi

source=$target/site-source
rm -rf "$source"
mkdir -p "$source"
cp -r docs/. "$source"
# Pages that lie outside, and their names in the book.
for page in ARCHITECTURE.md:ARCHITECTURE.md CONTRIBUTING.md:CONTRIBUTING.md CHANGELOG.md:CHANGELOG.md python/README.md:python-package.md; do
    path=${page%:*} name=${page#*:}
    # In these pages, the pages inside are `docs/NAME` or `../docs/NAME`.
    sed -E 's#\]\((\.\./)?docs/#](#g' "$path" >"$source/$name"
    # In the pages inside, this one is `../PATH`, with one more `../` in a folder.
    sed -i "s#](\.\./$path#]($name#g" "$source"/*.md
    find "$source" -mindepth 2 -name '*.md' -exec sed -i "s#](\.\./\.\./$path#](../$name#g" {} +
done
# Programs and data that pages link to.
cp -r examples "$source/examples"
sed -i 's#](\.\./examples/#](examples/#g' "$source"/*.md
find "$source" -mindepth 2 -name '*.md' -exec sed -i 's#](\.\./\.\./examples/#](../examples/#g' {} +
# The name of a file behind a language is shown above its block.
find "$source" -name '*.md' -exec sed -i -E \
    -e 's#^```([a-z]+) (theirs|needs=[^ ]*)$#```\1#' \
    -e 's#^```([a-z]+) ([^ =]+)$#<div class="file-name">\2</div>\n\n```\1#' {} +

if [ -e "$site/playground/index.html" ]; then
    sed -i '1a\\n[Open the playground](playground/index.html).' "$source/playground.md"
fi

# mdBook empties the folder that it writes to.
rm -rf "$target/site-built"
"$mdbook" build "$source" --dest-dir "$target/site-built"
rm -f "$target/site-built/book.toml"
mkdir -p "$site"
find "$site" -mindepth 1 -maxdepth 1 ! -name playground -exec rm -rf {} +
cp -r "$target/site-built/." "$site"

# Every link of the built pages leads to a file, and to a place there.
python3 - "$site" <<'PY'
import pathlib, re, sys, urllib.parse
site = pathlib.Path(sys.argv[1]).resolve()
pages = {p.resolve(): p.read_text() for p in site.rglob("*.html") if p.relative_to(site).parts[0] != "playground"}
wrong, count = [], 0
for page, text in pages.items():
    # The page for addresses that do not exist has links from the root of the server.
    for target in re.findall(r'(?:href|src)="([^"]+)"', text) if page.name != "404.html" else []:
        url = urllib.parse.urlparse(target)
        if url.scheme or url.netloc:
            continue
        count += 1
        file = (page.parent / urllib.parse.unquote(url.path)).resolve() if url.path else page
        anchor = urllib.parse.unquote(url.fragment)
        if not file.exists():
            wrong.append(f"{page.relative_to(site)}: {target} does not exist")
        elif anchor and file in pages and f'id="{anchor}"' not in pages[file]:
            wrong.append(f"{page.relative_to(site)}: {target} has no such place")
if wrong:
    sys.exit("links that lead nowhere:\n" + "\n".join(sorted(set(wrong))))
print(f"{site}: {len(pages)} pages, whose {count} links lead somewhere")
PY
