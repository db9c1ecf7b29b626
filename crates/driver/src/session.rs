//! Loads files: each is read once and parsed once, whether it is included, imported or named.
//!
//! An import is searched beside the importing file, then in the directories given by `-I`, then, if its name begins
//! with `slang.`, where Slang's standard modules are ([`crate::standard`]). A name is tried as written and with `-` for
//! `_`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use check::{ModuleLoader, Program};
use rustc_hash::{FxHashMap, FxHashSet};
use syntax::{Ast, Diagnostic, FileAst, FileId, Severity, SourceFile, Sources, Span};

use crate::error::Error;
use crate::packed::Packed;
use crate::pipeline::Loaded;
use crate::validate::Validation;
use crate::{files, literate, packed, standard};

/// The files of the core library, in order. They are part of the binary.
const CORE: [(&str, &str); 5] = [
    ("core/prelude.slang", include_str!("../core/prelude.slang")),
    ("core/vector.slang", include_str!("../core/vector.slang")),
    ("core/math.slang", include_str!("../core/math.slang")),
    ("core/derivatives.slang", include_str!("../core/derivatives.slang")),
    ("core/buffers.slang", include_str!("../core/buffers.slang")),
];

/// The parts of the library that are only read when a program needs them, each before those that it needs itself. The
/// lines `// Loaded for: …` at the start of a part list the words that, if they occur in a program (not in the files
/// above), cause it to be read; a `*` matches all words with that beginning. The declarations of the part are then
/// visible everywhere, like those of the core library.
const PARTS: [(&str, &str); 22] = [
    ("core/coopmattensors.slang", include_str!("../core/coopmattensors.slang")),
    ("core/coopmat.slang", include_str!("../core/coopmat.slang")),
    ("core/coopmatderivatives.slang", include_str!("../core/coopmatderivatives.slang")),
    ("core/coopvec.slang", include_str!("../core/coopvec.slang")),
    ("core/host.slang", include_str!("../core/host.slang")),
    ("core/smallfloats.slang", include_str!("../core/smallfloats.slang")),
    ("core/bytes.slang", include_str!("../core/bytes.slang")),
    ("core/textureshapes.slang", include_str!("../core/textureshapes.slang")),
    ("core/samplerfeedback.slang", include_str!("../core/samplerfeedback.slang")),
    ("core/texturevariants.slang", include_str!("../core/texturevariants.slang")),
    ("core/textures.slang", include_str!("../core/textures.slang")),
    ("core/graphics.slang", include_str!("../core/graphics.slang")),
    ("core/waves.slang", include_str!("../core/waves.slang")),
    ("core/bits.slang", include_str!("../core/bits.slang")),
    ("core/atomics.slang", include_str!("../core/atomics.slang")),
    ("core/tensor.slang", include_str!("../core/tensor.slang")),
    ("core/pointers.slang", include_str!("../core/pointers.slang")),
    ("core/cuda.slang", include_str!("../core/cuda.slang")),
    ("core/layouts.slang", include_str!("../core/layouts.slang")),
    ("core/conditional.slang", include_str!("../core/conditional.slang")),
    ("core/spirv.slang", include_str!("../core/spirv.slang")),
    ("core/vulkan.slang", include_str!("../core/vulkan.slang")),
];

/// The words for which a part of the library is loaded.
fn words(part: &str) -> impl Iterator<Item = &str> {
    let head = part.lines().take_while(|line| line.starts_with("//"));
    head.filter_map(|line| line.strip_prefix("// Loaded for: ")).flat_map(|words| words.split(' '))
}

/// Returns true if a word for which a part is loaded occurs in the program.
fn is_needed(program: &Program, part: &str) -> bool {
    let symbols = &program.ast.symbols;
    words(part).any(|word| match word.strip_suffix('*') {
        Some(start) => symbols.occurs_from(start),
        None => symbols.occurs(word),
    })
}

/// Built-in modules for `import`, used if no file of that name is found.
const MODULES: [(&str, &str, &str); 7] = [
    ("slangpy", "core/slangpy.slang", include_str!("../core/slangpy.slang")),
    ("glsl", "core/glsl.slang", include_str!("../core/glsl.slang")),
    ("random", "core/random.slang", include_str!("../core/random.slang")),
    ("implicit", "core/implicit.slang", include_str!("../core/implicit.slang")),
    ("odes", "core/odes.slang", include_str!("../core/odes.slang")),
    ("jacobians", "core/jacobians.slang", include_str!("../core/jacobians.slang")),
    ("edges", "core/edges.slang", include_str!("../core/edges.slang")),
];

/// Parts of built-in modules that are only read when a program needs them, each with its module. They are parts of the
/// module, so that their names are visible where the module is imported.
const MODULE_PARTS: [(&str, &str, &str); 11] = [
    ("glsl", "core/glsltextures.slang", include_str!("../core/glsltextures.slang")),
    ("glsl", "core/glslstages.slang", include_str!("../core/glslstages.slang")),
    ("glsl", "core/glslrays.slang", include_str!("../core/glslrays.slang")),
    ("implicit", "core/implicitattribute.slang", include_str!("../core/implicitattribute.slang")),
    ("implicit", "core/implicitbanded.slang", include_str!("../core/implicitbanded.slang")),
    ("implicit", "core/implicitminima.slang", include_str!("../core/implicitminima.slang")),
    ("odes", "core/odesstiff.slang", include_str!("../core/odesstiff.slang")),
    ("odes", "core/odesevents.slang", include_str!("../core/odesevents.slang")),
    ("odes", "core/odesadjoint.slang", include_str!("../core/odesadjoint.slang")),
    ("odes", "core/odesmechanics.slang", include_str!("../core/odesmechanics.slang")),
    ("jacobians", "core/laplacians.slang", include_str!("../core/laplacians.slang")),
];

/// The part of the library that [`crate::precision`] alone adds to programs.
const OBSERVATION: (&str, &str) = ("core/precision.slang", include_str!("../core/precision.slang"));

/// The text of a file of the library by its name, such as `core/math.slang`.
pub fn core_text(name: &str) -> Option<&'static str> {
    let modules = MODULES.iter().chain(&MODULE_PARTS).map(|&(_, name, text)| (name, text));
    CORE.into_iter()
        .chain(PARTS)
        .chain(modules)
        .chain([OBSERVATION])
        .find(|file| file.0 == name)
        .map(|file| file.1)
}

/// Options of the command line about files.
#[derive(Clone, Debug, Default)]
pub struct FileOptions {
    /// Pairs of `NAME` and replacement.
    pub defines: Vec<(String, String)>,
    /// The directories given by `-I`.
    pub include_dirs: Vec<PathBuf>,
    /// Texts that replace the files at these paths: the unsaved contents of an editor.
    pub open: Vec<(PathBuf, std::sync::Arc<str>)>,
    /// Codes of warnings that are not shown, with or without their letter.
    pub allow: Vec<String>,
    /// Codes of diagnostics that become warnings, whether they are errors or silent by default.
    pub warn: Vec<u32>,
    /// Matrices are stored column by column where a program does not specify their layout in memory.
    pub matrices_in_columns: bool,
    /// Files of the program see the names of GLSL, as if they said `import glsl;`.
    pub imports_glsl: bool,
    /// Bit-fields are packed as by Microsoft's C compiler.
    pub high_bit_fields: bool,
    /// Modules that belong to the program although it does not import them.
    pub links: Vec<PathBuf>,
    /// The lengths of arrays of resources that are declared without one, and the numbers of resources that handles of a
    /// type can name, by `NAME` or `TYPE.Handle`.
    pub lengths: Vec<(String, u32)>,
    /// Validates the passes of each compilation.
    pub validation: Option<Validation>,
}

/// The sources of one program.
#[derive(Debug, Default)]
pub struct Session {
    /// All files read so far.
    pub sources: Sources,
    options: FileOptions,
    disk: Disk,
    /// The index in `ast.files` of each parsed file.
    parsed: FxHashMap<FileId, usize>,
    /// For each of [`PARTS`], true if it has been read.
    has_part: [bool; PARTS.len()],
    /// For each of [`MODULE_PARTS`], true if it has been read.
    has_module_part: [bool; MODULE_PARTS.len()],
}

/// The files that have been read.
#[derive(Debug, Default)]
struct Disk {
    include_dirs: Vec<PathBuf>,
    /// By canonical path, if the path exists.
    open: FxHashMap<PathBuf, std::sync::Arc<str>>,
    by_path: FxHashMap<PathBuf, FileId>,
    /// The folder of each file; empty for texts that are not in a folder.
    folders: Vec<PathBuf>,
    /// Diagnostics about files as such.
    diagnostics: Vec<Diagnostic>,
    /// The file that a file means by a name that it includes.
    included: Vec<(FileId, String, FileId)>,
    /// The files whose inclusions are all known, wherever they are.
    fixed: FxHashSet<FileId>,
    /// The compiled module that each file comes from.
    compiled: FxHashMap<FileId, Rc<Compiled>>,
    /// The files of the library, which no macro of the user reaches.
    library: FxHashSet<FileId>,
    /// The reason why the last file that is there could not be read.
    failed: Option<String>,
}

/// A compiled module whose files have been added to the sources.
#[derive(Debug)]
struct Compiled {
    /// Its files in order, each with its length.
    files: Vec<(FileId, u32)>,
    tree: Vec<u8>,
}

impl Session {
    /// A session without files.
    pub fn new(options: FileOptions) -> Session {
        let open = options.open.iter().map(|(path, text)| (canonical(path), text.clone())).collect();
        let disk = Disk { include_dirs: options.include_dirs.clone(), open, ..Disk::default() };
        Session { options, disk, ..Session::default() }
    }

    /// Returns true if a diagnostic is shown: errors always are.
    pub fn is_shown(&self, diagnostic: &Diagnostic) -> bool {
        let same = |code: &String| {
            let bare = |c: &str| c.trim_start_matches(['E', 'W']).to_string();
            bare(code) == bare(diagnostic.code)
        };
        diagnostic.severity == Severity::Error || !self.options.allow.iter().any(same)
    }

    /// Gives lengths to arrays of resources that have none yet: see [`FileOptions::lengths`].
    pub fn add_lengths(&mut self, lengths: Vec<(String, u32)>) {
        let own = &mut self.options.lengths;
        let new: Vec<_> =
            lengths.into_iter().filter(|(name, _)| own.iter().all(|known| known.0 != *name)).collect();
        own.extend(new);
    }

    /// A session without files, with the same options.
    pub fn fresh(&self) -> Session {
        Session::new(self.options.clone())
    }

    /// Validates the passes of each compilation, if the options ask for it.
    pub fn validation(&self) -> Option<&Validation> {
        self.options.validation.as_ref()
    }

    /// A program whose root is the module with that index, compiled with this session's options.
    pub fn loaded(&self, program: Program, file: usize) -> Loaded {
        Loaded { validation: self.options.validation.clone(), ..Loaded::new(program, file) }
    }

    /// Creates a program that consists of the library.
    pub fn program(&mut self) -> Program {
        // Files parsed for another program are in the tree of that program.
        self.parsed.clear();
        self.has_part.fill(false);
        self.has_module_part.fill(false);
        let mut ast = Ast::default();
        ast.reserve(CORE.iter().map(|file| file.1.len()).sum::<usize>() / syntax::token::BYTES);
        let mut diagnostics = Vec::new();
        let mut indices = Vec::new();
        for (path, text) in CORE {
            indices.push(self.parse_library(path, text, &mut ast, &mut diagnostics));
        }
        let mut program = Program::new(ast, &indices);
        // The files above may contain words of parts of the library, which they do not need.
        program.ast.symbols.forget_occurrences();
        program.host_has_columns = self.options.matrices_in_columns;
        program.has_high_bit_fields = self.options.high_bit_fields;
        program.lengths = self.options.lengths.iter().cloned().collect();
        for &code in &self.options.warn {
            program.ast.warnings.warn(code);
        }
        program.diagnostics.extend(diagnostics);
        program
    }

    /// Reads a file and makes it a module of the program. Returns its index in `ast.files`.
    pub fn load(&mut self, program: &mut Program, path: &Path) -> Result<usize, Error> {
        let file = self.disk.read(&mut self.sources, path)?;
        Ok(self.module(program, file))
    }

    /// A module of the program, with all that it includes, compiled for a file of its own.
    pub fn packed(&self, program: &Program, index: usize) -> Packed {
        let mut files = program.sources_of_module(index);
        let n_trees = files.len();
        let mut next = 0;
        while next < files.len() {
            let included = self.disk.included.iter().filter(|edge| edge.0 == files[next]);
            let more: Vec<FileId> = included.map(|edge| edge.2).filter(|to| !files.contains(to)).collect();
            // A module that is imported is no part of this one.
            let is_part = |file: &FileId| !program.is_module(*file);
            files.extend(more.into_iter().filter(is_part));
            next += 1;
        }
        // The tree of the module alone, with the numbers that its files have in the list.
        let number = |file: FileId| files.iter().position(|&other| other == file).map(|k| FileId(k as u32));
        let edge =
            |(from, name, to): &(FileId, String, FileId)| Some((number(*from)?, name.clone(), number(*to)?));
        let (mut disk, mut sources, mut ast) = (Disk::default(), Sources::default(), Ast::default());
        disk.included = self.disk.included.iter().filter_map(edge).collect();
        for file in &files {
            let source = &self.sources.files[file.0 as usize];
            let name = Path::new(&source.path).file_name().map(|name| name.to_string_lossy().into_owned());
            let added = sources.add(name.unwrap_or_default(), source.text.clone());
            disk.fixed.insert(added);
        }
        for (k, &file) in files[..n_trees].iter().enumerate() {
            let defines = self.defines(file);
            // What there is to report was reported when the module was checked.
            let mut reported = Vec::new();
            let file = FileId(k as u32);
            syntax::parse_file(&mut ast, &mut sources, file, &mut disk, &defines, &mut reported);
        }
        let is_tree = |file: FileId| (file.0 as usize) < n_trees;
        let parts = disk.included.into_iter().filter(|(from, _, to)| is_tree(*from) && is_tree(*to));
        let lines = |file: &SourceFile| file.text.split('\n').map(|line| line.len() as u32).collect();
        Packed {
            files: sources.files.iter().map(|file| (file.path.clone(), lines(file))).collect(),
            parts: parts.map(|(from, name, to)| (from.0, name, to.0)).collect(),
            tree: syntax::stored::write(&ast),
        }
    }

    /// The macros with which a file is read.
    fn defines(&self, file: FileId) -> Cow<'_, [(String, String)]> {
        if self.disk.library.contains(&file) {
            return Cow::Borrowed(&[]);
        }
        let mut defines = Cow::Borrowed(&self.options.defines[..]);
        if self.disk.folders.get(file.0 as usize).is_some_and(|folder| standard::is_development(folder)) {
            defines.to_mut().push((standard::DEVELOPMENT.into(), "1".into()));
        }
        defines
    }

    /// Reads the modules that are linked.
    pub fn load_links(&mut self, program: &mut Program) -> Result<(), Error> {
        for path in self.options.links.clone() {
            self.load(program, &path)?;
        }
        Ok(())
    }

    /// Makes a text a module of the program; its imports are searched in `folder`.
    pub fn load_text(&mut self, program: &mut Program, name: &str, text: String, folder: &Path) -> usize {
        let file = self.disk.add(&mut self.sources, name, folder.into(), text);
        self.module(program, file)
    }

    /// Makes a text of the library a module of the program, whose names no other module sees.
    pub(crate) fn load_library(&mut self, program: &mut Program, name: &str, text: &str) -> usize {
        let file = self.disk.add_library(&mut self.sources, name, text);
        let index = self.module(program, file);
        program.add_built_in(index);
        index
    }

    /// Parses a text without making it a module; returns its index in `ast.files`.
    pub fn parse_text(&mut self, program: &mut Program, name: &str, text: String) -> usize {
        let file = self.disk.add(&mut self.sources, name, PathBuf::new(), text);
        self.parse(program, file)
    }

    fn module(&mut self, program: &mut Program, file: FileId) -> usize {
        let index = self.parse(program, file);
        if self.options.imports_glsl && !program.is_entered(index) {
            program.ast.add_import(index, "glsl");
        }
        // A file that begins with `implementing m;` sees the names of all files of `m`.
        if let Some(path) = program.implemented_by(index)
            && let Some(whole) = ModuleLoader::load(self, program, &path, false, file)
        {
            program.add_module(whole, self);
        }
        program.add_module(index, self);
        crate::watch::remember(&self.sources);
        program.diagnostics.append(&mut self.disk.diagnostics);
        index
    }

    fn parse(&mut self, program: &mut Program, file: FileId) -> usize {
        if let Some(&index) = self.parsed.get(&file) {
            return index;
        }
        if let Some(compiled) = self.disk.compiled.get(&file) {
            let added = syntax::stored::read(&compiled.tree, &mut program.ast, &compiled.files);
            for index in added.unwrap_or_default() {
                self.parsed.insert(program.ast.files[index].file, index);
            }
            self.read_parts(program);
            if let Some(&index) = self.parsed.get(&file) {
                return index;
            }
            let damaged = format!("cannot read the module: {}", packed::DAMAGED);
            program.diagnostics.push(Diagnostic::error("E15300", Span::of_file(file), damaged));
            program.ast.files.push(FileAst { file, decls: Vec::new() });
            self.parsed.insert(file, program.ast.files.len() - 1);
            return program.ast.files.len() - 1;
        }
        let defines = self.defines(file).into_owned();
        let index = syntax::parse_file(
            &mut program.ast,
            &mut self.sources,
            file,
            &mut self.disk,
            &defines,
            &mut program.diagnostics,
        );
        program.diagnostics.append(&mut self.disk.diagnostics);
        self.parsed.insert(file, index);
        self.read_parts(program);
        index
    }

    /// Reads the parts of the library whose words occur in the program.
    fn read_parts(&mut self, program: &mut Program) {
        for (k, (path, text)) in PARTS.into_iter().enumerate() {
            if self.has_part[k] || !is_needed(program, text) {
                continue;
            }
            self.has_part[k] = true;
            let index = self.parse_library(path, text, &mut program.ast, &mut program.diagnostics);
            program.add_library(index);
        }
    }

    /// Reads the parts of a built-in module whose words occur in the program; `index` is that of the module.
    fn read_module_parts(&mut self, program: &mut Program, module: &str, index: usize) {
        for (k, (of, path, text)) in MODULE_PARTS.into_iter().enumerate() {
            if of != module || self.has_module_part[k] || !is_needed(program, text) {
                continue;
            }
            self.has_module_part[k] = true;
            let part = self.parse_library(path, text, &mut program.ast, &mut program.diagnostics);
            program.add_part(part, index);
            program.add_built_in(part);
            self.read_parts(program);
        }
    }

    fn parse_library(
        &mut self,
        path: &str,
        text: &str,
        ast: &mut Ast,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> usize {
        let file = self.disk.add_library(&mut self.sources, path, text);
        syntax::parse_file(ast, &mut self.sources, file, &mut self.disk, &[], diagnostics)
    }
}

impl ModuleLoader for Session {
    fn load(&mut self, program: &mut Program, path: &str, quoted: bool, from: FileId) -> Option<usize> {
        let path = if quoted { path.to_string() } else { path.replace('.', "/") };
        let dashed = path.replace('_', "-");
        if let Some(file) = self.disk.known(from, &path) {
            return Some(self.parse(program, file));
        }
        let mut names =
            vec![path.clone(), format!("{path}.slang"), dashed.clone(), format!("{dashed}.slang")];
        for ending in ["slang.md", packed::ENDING] {
            names.extend([format!("{path}.{ending}"), format!("{dashed}.{ending}")]);
        }
        for folder in self.disk.folders_for(from) {
            for name in &names {
                let candidate = folder.join(name);
                if candidate.extension().is_some() && self.disk.is_there(&candidate) {
                    let file = match self.disk.read(&mut self.sources, &candidate) {
                        Ok(file) => file,
                        Err(error) => {
                            self.disk.failed = Some(error.to_string());
                            return None;
                        }
                    };
                    self.disk.included.push((from, path, file));
                    if self.disk.folders.get(from.0 as usize) == Some(&folder) {
                        program.siblings.insert(file);
                    }
                    return Some(self.parse(program, file));
                }
            }
        }
        let own = self.disk.folders.get(from.0 as usize).map(PathBuf::as_path);
        if let Some(standard) = names.iter().take(4).step_by(2).find_map(|name| standard::find(name, own)) {
            let file = self.disk.read(&mut self.sources, &standard).ok()?;
            return Some(self.parse(program, file));
        }
        let (module, name, text) = MODULES.into_iter().find(|m| m.0 == path)?;
        let file = match self.disk.by_path.get(Path::new(name)) {
            Some(&file) => file,
            None => {
                let file = self.disk.add_library(&mut self.sources, name, text);
                self.disk.by_path.insert(name.into(), file);
                file
            }
        };
        let index = self.parse(program, file);
        program.add_built_in(index);
        self.read_module_parts(program, module, index);
        Some(index)
    }

    fn why(&mut self) -> Option<String> {
        self.disk.failed.take()
    }
}

impl syntax::IncludeLoader for Disk {
    fn include(&mut self, path: &str, from: FileId, sources: &mut Sources) -> Result<FileId, String> {
        let path = path.replace('\\', "/");
        if let Some(file) = self.known(from, &path) {
            return Ok(file);
        }
        for folder in self.folders_for(from) {
            let candidate = folder.join(&path);
            if self.is_there(&candidate) {
                let file = self.read(sources, &candidate).map_err(|e| e.to_string())?;
                self.included.push((from, path, file));
                return Ok(file);
            }
        }
        Err(format!("there is no file `{path}`"))
    }
}

impl Disk {
    /// Adds a text of the library.
    fn add_library(&mut self, sources: &mut Sources, name: &str, text: &str) -> FileId {
        let file = self.add(sources, name, PathBuf::new(), text.into());
        self.library.insert(file);
        file
    }

    /// The file that a file of a compiled module means by a name.
    fn known(&self, from: FileId, name: &str) -> Option<FileId> {
        self.fixed.get(&from)?;
        self.included.iter().find(|edge| edge.0 == from && edge.1 == name).map(|edge| edge.2)
    }

    /// Adds the files of a compiled module; returns the first one.
    fn unpack(&mut self, sources: &mut Sources, path: &Path, bytes: &[u8]) -> Result<FileId, Error> {
        let module = Packed::from_bytes(bytes).map_err(|why| Error::read(path, why))?;
        let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let number = packed::hash(bytes);
        let mut files = Vec::new();
        for (name, lines) in &module.files {
            let file = sources.add_without_text(path.join(name).display().to_string(), lines, number);
            self.place(file, folder.clone());
            self.fixed.insert(file);
            files.push((file, sources.files[file.0 as usize].text.len() as u32));
        }
        let edges = module.parts.into_iter();
        self.included
            .extend(edges.map(|(from, name, to)| (files[from as usize].0, name, files[to as usize].0)));
        let compiled = Rc::new(Compiled { files, tree: module.tree });
        self.compiled.extend(compiled.files.iter().map(|&(file, _)| (file, compiled.clone())));
        Ok(compiled.files[0].0)
    }

    fn folders_for(&self, from: FileId) -> Vec<PathBuf> {
        let own = self.folders.get(from.0 as usize).cloned();
        own.into_iter().chain(self.include_dirs.iter().cloned()).collect()
    }

    /// Returns true if the file exists, or if its text is held open.
    fn is_there(&self, path: &Path) -> bool {
        path.is_file() || self.open.contains_key(&canonical(path))
    }

    fn add(&mut self, sources: &mut Sources, name: &str, folder: PathBuf, text: String) -> FileId {
        let file = sources.add(name, text);
        self.place(file, folder);
        file
    }

    fn place(&mut self, file: FileId, folder: PathBuf) {
        let slot = file.0 as usize;
        if self.folders.len() <= slot {
            self.folders.resize(slot + 1, PathBuf::new());
        }
        self.folders[slot] = folder;
    }

    fn read(&mut self, sources: &mut Sources, path: &Path) -> Result<FileId, Error> {
        let key = canonical(path);
        if let Some(&file) = self.by_path.get(&key) {
            return Ok(file);
        }
        let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        if let Some(text) = self.open.get(&key) {
            let text = if literate::is_literate(path) { literate::program(text) } else { text.to_string() };
            let file = self.add(sources, &path.display().to_string(), folder, text);
            self.by_path.insert(key, file);
            return Ok(file);
        }
        let bytes = match path == Path::new("-") {
            true => files::read_input(files::PROGRAM)?,
            false => files::read(path, files::PROGRAM)?,
        };
        let is_packed = path.extension().is_some_and(|ending| ending == packed::ENDING);
        if is_packed || packed::is_packed(&bytes) {
            let file = self.unpack(sources, path, &bytes)?;
            self.by_path.insert(key, file);
            return Ok(file);
        }
        let bytes = from_utf16(&bytes).unwrap_or(bytes);
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").map_or(bytes.clone(), <[u8]>::to_vec);
        let (text, bad) = match String::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(error) => {
                let at = error.utf8_error().valid_up_to() as u32;
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let in_code = replaced_in_code(&text);
                (text, in_code.then_some(at))
            }
        };
        let text = if literate::is_literate(path) { literate::program(&text) } else { text };
        let file = self.add(sources, &path.display().to_string(), folder, text);
        if let Some(at) = bad {
            let span = Span { file, start: at, end: at + 3 };
            self.diagnostics.push(
                Diagnostic::error("E0003", span, "the file is not valid UTF-8")
                    .label("the first byte that is not text")
                    .help("save the file in the encoding UTF-8"),
            );
        }
        self.by_path.insert(key, file);
        Ok(file)
    }
}

/// The canonical path of a file; the path itself if there is no such file.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// Returns true if invalid UTF-8 was replaced outside of comments, where it matters.
fn replaced_in_code(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"', '\u{FFFD}']) {
        let tail = &rest[at..];
        let skipped = if tail.starts_with("//") {
            tail.find('\n').unwrap_or(tail.len())
        } else if tail.starts_with("/*") {
            tail.find("*/").map_or(tail.len(), |end| end + 2)
        } else if let Some(string) = tail.strip_prefix('"') {
            let end = string.find(['"', '\n', '\u{FFFD}']).unwrap_or(string.len());
            if string[end..].starts_with('"') { end + 2 } else { end + 1 }
        } else if tail.starts_with('/') {
            1
        } else {
            return true;
        };
        rest = &tail[skipped..];
    }
    false
}

/// Converts a file to UTF-8 if its byte order mark says that it is UTF-16.
fn from_utf16(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mark, rest) = bytes.split_at_checked(2)?;
    let unit: fn([u8; 2]) -> u16 = match mark {
        [0xFF, 0xFE] => u16::from_le_bytes,
        [0xFE, 0xFF] => u16::from_be_bytes,
        _ => return None,
    };
    let units: Vec<u16> = rest.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    Some(String::from_utf16_lossy(&units).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::{CORE, FileOptions, PARTS, Session, from_utf16, replaced_in_code, words};

    #[test]
    fn each_part_is_loaded_for_something() {
        for (path, text) in PARTS {
            assert!(words(text).count() > 0, "{path}");
        }
    }

    /// The library's own files contain words for which parts are read.
    #[test]
    fn parts_are_read_for_words_of_the_program_only() {
        let parts_for = |text: &str| {
            let mut session = Session::new(FileOptions::default());
            let mut program = session.program();
            session.load_text(&mut program, "a.slang", text.into(), ".".as_ref());
            let is_read = |k: &usize| session.has_part[*k];
            (0..PARTS.len()).filter(is_read).map(|k| PARTS[k].0).collect::<Vec<_>>()
        };
        assert!(CORE.iter().any(|(_, text)| text.contains("fabs")));
        assert_eq!(parts_for("float f(float x) { return abs(x); }"), [""; 0]);
        assert_eq!(parts_for("float f(float x) { return fabs(x); }"), ["core/cuda.slang"]);
    }

    #[test]
    fn bytes_that_are_no_text() {
        for harmless in ["// \u{FFFD}\nint x;", "/* \u{FFFD} */ a / b \"//\" c", "", "/"] {
            assert!(!replaced_in_code(harmless), "{harmless}");
        }
        for bad in ["\u{FFFD}", "// x\nint \u{FFFD};", "\"//\" \u{FFFD}", "\"\u{FFFD}\"", "/* */\u{FFFD}"] {
            assert!(replaced_in_code(bad), "{bad}");
        }
    }

    #[test]
    fn files_of_two_byte_units() {
        assert_eq!(from_utf16(b"\xFF\xFEa\0\xE4\0").as_deref(), Some("a\u{e4}".as_bytes()));
        assert_eq!(from_utf16(b"\xFE\xFF\0a").as_deref(), Some("a".as_bytes()));
        assert_eq!(from_utf16(b"ab"), None);
        assert_eq!(from_utf16(b"a"), None);
    }
}
