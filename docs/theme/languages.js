// Colours the languages that mdBook's highlight.js does not know, by classes that all of mdBook's themes have colours for, and
// writes what varies in an output as an ellipsis, and `? 1` as an exit status.
"use strict";

(() => {
    const slang = (hljs) => ({
        name: "Slang",
        keywords: {
            keyword:
                "associatedtype break case class const continue default defer discard do each else enum expand export extension " +
                "for func functype get groupshared if import in inout interface internal is let module mutating namespace no_diff " +
                "nonuniform out private property public return set static struct subscript switch this throws try typealias uniform " +
                "var where while catch extern implementing optional",
            literal: "true false none nullptr",
            built_in:
                "bwd_diff fwd_diff diffPair detach select lerp dot cross normalize length min max abs clamp saturate pow exp log " +
                "sin cos tan tanh sqrt rsqrt floor ceil frac mul transpose reflect IDifferentiable DifferentialPair " +
                "DifferentialPtrPair StructuredBuffer RWStructuredBuffer DiffPtr DiffTexture2D DiffTensorView TensorView",
        },
        contains: [
            hljs.C_LINE_COMMENT_MODE,
            hljs.C_BLOCK_COMMENT_MODE,
            hljs.QUOTE_STRING_MODE,
            hljs.C_NUMBER_MODE,
            { className: "attribute", begin: /^\s*#\w+/, end: /$/ },
            { className: "attribute", begin: /(?<![\w\])])\[[A-Za-z_]+(\([^)\]]*\))?\]/ },
            { className: "built_in", begin: /\b(void|bool|u?int(8|16|32|64)?(_t)?|half|float|double)([1-4](x[1-4])?)?\b/ },
            { className: "built_in", begin: /\b(RW|W)?Texture[123]D\b/ },
        ],
    });

    const ir = (hljs) => ({
        name: "IR",
        keywords: { keyword: "func global struct entry witness declare yield if else for loop switch case default down diff jvp vjp" },
        contains: [
            hljs.COMMENT(";", "$"),
            hljs.QUOTE_STRING_MODE,
            { className: "symbol", begin: /~v\d+\b/ },
            { className: "variable", begin: /\bv\d+\b/ },
            { className: "built_in", begin: /\b(bool|[iuf](8|16|32|64)(x\d)?)\b/ },
            hljs.C_NUMBER_MODE,
        ],
    });

    // Commands stand out from what they print.
    const console_ = () => ({
        name: "Console",
        contains: [
            { className: "meta", begin: /^\$ (.*\\\n)*/, end: /$/ },
            { className: "deletion", begin: /^(error\b|\(exit status)/, end: /$/ },
        ],
    });

    const csv = () => ({ name: "CSV", contains: [{ className: "number", begin: /-?\d+(\.\d+)?/ }] });

    const known = { slang, ir, console: console_, csv };
    if (window.hljs) {
        for (const [name, language] of Object.entries(known)) {
            hljs.registerLanguage(name, language);
        }
    }

    for (const code of document.querySelectorAll("pre code")) {
        const language = [...code.classList].find((name) => name.startsWith("language-"))?.slice("language-".length);
        if (language === undefined) {
            continue;
        }
        if (language === "console") {
            code.textContent = code.textContent
                .replaceAll("[..]", "…")
                .replace(/^\.\.\.$/gm, "…")
                .replace(/^\? (\d+)$/gm, "(exit status $1)")
                .replace(/\n+$/, "\n");
        }
        if (window.hljs && language in known) {
            code.className = `language-${language}`;
            code.removeAttribute("data-highlighted");
            hljs.highlightBlock(code);
        }
    }
})();
