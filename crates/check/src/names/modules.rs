//! Loads modules: files that share one scope of names.
//!
//! Adding a module only enters the names of its declarations; everything else is computed on demand.

use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, Diagnostic, FileId, Severity, Symbol};

use crate::facts::Module;
use crate::program::Program;

/// Finds modules for `import` and `__include`.
pub trait ModuleLoader {
    /// Parses the file into `program.ast` (unless it is there already) and returns its index in `ast.files`;
    /// `None` if there is no such file.
    fn load(&mut self, program: &mut Program, path: &str, quoted: bool, from: FileId) -> Option<usize>;
    /// The reason why the last file that was there could not be read.
    fn why(&mut self) -> Option<String> {
        None
    }
}

/// A loader that finds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoModules;

impl ModuleLoader for NoModules {
    fn load(&mut self, _: &mut Program, _: &str, _: bool, _: FileId) -> Option<usize> {
        None
    }
}

impl Program {
    /// The declarations of one name at the top level of all modules.
    pub(crate) fn declared_anywhere(&self, name: Symbol) -> Vec<DeclId> {
        self.modules.all.iter().filter_map(|module| module.names.get(&name)).flatten().copied().collect()
    }

    /// The declaration that an `extern` constant or struct, or a constant of the pipeline, stands for: the one of its path
    /// that some module exports, or else itself.
    pub(crate) fn linked(&self, decl: DeclId) -> DeclId {
        if matches!(self.ast.decls[decl].kind, DeclKind::Func { .. }) {
            return decl;
        }
        self.exported_for(decl).first().copied().unwrap_or(decl)
    }

    /// The exported functions that an `extern` function without a body may stand for; the parameters decide.
    pub(crate) fn linked_functions(&self, decl: DeclId) -> Vec<DeclId> {
        match self.ast.decls[decl].kind {
            DeclKind::Func { body: None, .. } => self.exported_for(decl),
            _ => Vec::new(),
        }
    }

    /// The declarations of the same kind and path that modules export, for an `extern` one or a constant of the pipeline.
    fn exported_for(&self, decl: DeclId) -> Vec<DeclId> {
        let node = &self.ast.decls[decl];
        let is_namespace = |decl: DeclId| matches!(self.ast.decls[decl].kind, DeclKind::Namespace { .. });
        let mut found = match node.parent {
            _ if !node.modifiers.has(Modifiers::EXTERN) && !self.is_specialized(decl) => Vec::new(),
            None => self.declared_anywhere(node.name),
            Some(parent) if is_namespace(parent) => {
                self.parts(parent).into_iter().flat_map(|part| self.named(part, node.name)).collect()
            }
            Some(_) => Vec::new(),
        };
        found.retain(|&other| {
            let exported = &self.ast.decls[other];
            other != decl
                && exported.modifiers.has(Modifiers::EXPORT)
                && std::mem::discriminant(&exported.kind) == std::mem::discriminant(&node.kind)
                && !matches!(exported.kind, DeclKind::Func { body: None, .. })
        });
        found
    }

    /// Adds a parsed file (by its index in `ast.files`) to the library.
    pub fn add_library(&mut self, file: usize) {
        self.enter_file(file, 0, &mut Vec::new());
        self.queries.extensions_changed();
    }

    /// Adds a parsed file (by its index in `ast.files`) as a module of the program, with everything that it
    /// imports and includes. Only the names of its declarations are checked at this point.
    pub fn add_module(&mut self, file: usize, loader: &mut dyn ModuleLoader) {
        self.load_module(file, loader, 0);
    }

    /// The module that a file says it is a part of, by `implementing m;`.
    pub fn implemented_by(&self, file: usize) -> Option<String> {
        self.ast.files[file].decls.iter().find_map(|&decl| match &self.ast.decls[decl].kind {
            DeclKind::Implementing(path) => Some(path.clone()),
            _ => None,
        })
    }

    /// The files of the module whose main file is given, that file first.
    pub fn files_of_module(&self, file: usize) -> Vec<usize> {
        let module = self.modules.of_index.get(&file);
        let is_part = |&other: &usize| other != file && self.modules.of_index.get(&other) == module;
        let mut files = vec![file];
        if module.is_some() && self.implemented_by(file).is_none() {
            files.extend((0..self.ast.files.len()).filter(is_part));
        }
        files
    }

    fn load_module(&mut self, file: usize, loader: &mut dyn ModuleLoader, depth: u32) -> usize {
        if let Some(&module) = self.modules.of_index.get(&file) {
            return module;
        }
        let module = self.modules.all.len();
        self.modules.all.push(Module::default());
        let mut imports = Vec::new();
        self.modules.open.push(module);
        self.enter_file(file, module, &mut imports);
        for (_, part) in self.modules.parts.extract_if(.., |part| part.0 == file).collect::<Vec<_>>() {
            self.enter_file(part, module, &mut Vec::new());
        }
        let mut next = 0;
        while next < imports.len() {
            let decl = imports[next];
            next += 1;
            let from = self.ast.decls[decl].span.file;
            let span = self.ast.decls[decl].span;
            let (path, quoted, include) = match &self.ast.decls[decl].kind {
                DeclKind::Import { path, quoted } => (path.clone(), *quoted, false),
                DeclKind::Include { path, quoted } => (path.clone(), *quoted, true),
                _ => continue,
            };
            if depth > 200 {
                self.error("E15500", span, "imports are nested too deeply");
                continue;
            }
            let Some(index) = loader.load(self, &path, quoted, from) else {
                let word = if include { "include" } else { "import" };
                if let Some(why) = loader.why() {
                    self.error("E15300", span, format!("cannot read the file of {word} '{path}': {why}"));
                    continue;
                }
                let message = format!("cannot open the file of {word} '{path}'");
                let is_standard = !quoted && path.starts_with("slang/");
                let help = match is_standard {
                    true => {
                        "it is a standard module of Slang, which has its source: name the folder \
                         'source/standard-modules' of Slang in the environment variable PULLBACK_STANDARD_MODULES"
                    }
                    false => "it has to be beside this file, or in a folder that '-I' names",
                };
                self.report(Diagnostic::error("E15300", span, message).help(help));
                continue;
            };
            if include {
                let part = self.ast.files[index].file;
                self.ast.warnings.add_part(part, span);
                self.enter_file(index, module, &mut imports);
            } else {
                let exported = self.ast.decls[decl].modifiers.has(Modifiers::EXPORTED);
                if let Some(open) = self.modules.of_index.get(&index)
                    && self.modules.open.contains(open)
                {
                    let message =
                        format!("the module '{path}' imports itself, directly or through other modules");
                    self.error("E38200", span, message);
                    continue;
                }
                self.modules.imported.insert(decl, index);
                let other = self.load_module(index, loader, depth + 1);
                if other != module && !self.modules.all[module].imports.contains(&other) {
                    self.modules.all[module].imports.push(other);
                    if exported {
                        self.modules.all[module].exported.push(other);
                    }
                }
            }
        }
        self.modules.open.pop();
        // The count includes the library, so this means at least two modules of the program's.
        self.registry.has_retroactive = self.registry.is_used && self.modules.all.len() > 2;
        self.queries.extensions_changed();
        self.make_functions_generic();
        module
    }

    /// Returns true if the names of a parsed file are entered already.
    pub fn is_entered(&self, file: usize) -> bool {
        self.modules.of_index.contains_key(&file)
    }

    /// Adds a parsed file that imports nothing to a module, which may be loaded later.
    pub fn add_part(&mut self, part: usize, of: usize) {
        match self.modules.of_index.get(&of).copied() {
            Some(module) => {
                self.enter_file(part, module, &mut Vec::new());
                self.queries.extensions_changed();
            }
            None => self.modules.parts.push((of, part)),
        }
    }

    /// Adds a parsed file that imports nothing to the module of another file.
    pub fn extend_module(&mut self, index: usize, module_of: usize) {
        let module = self.modules.of_index.get(&module_of).copied().unwrap_or(0);
        self.enter_file(index, module, &mut Vec::new());
        self.make_functions_generic();
    }

    pub(crate) fn enter_file(&mut self, index: usize, module: usize, imports: &mut Vec<DeclId>) {
        if self.modules.of_index.insert(index, module).is_some() {
            return;
        }
        let file = self.ast.files[index].file;
        let decls = self.ast.files[index].decls.clone();
        self.modules.of_file.insert(file, module);
        let mut names = std::mem::take(&mut self.modules.all[module].names);
        // An import within a namespace, as an included file may have it, is one of the module.
        let (mut within, mut found) = (decls.clone(), Vec::new());
        while let Some(decl) = within.pop() {
            match &self.ast.decls[decl].kind {
                DeclKind::Import { .. } | DeclKind::Include { .. } => found.push(decl),
                DeclKind::Namespace { members } => within.extend(members),
                _ => {}
            }
        }
        found.sort_unstable();
        imports.append(&mut found);
        for decl in decls {
            let says = matches!(self.ast.decls[decl].kind, DeclKind::Include { .. } | DeclKind::Module(_));
            self.modules.all[module].has_visibility |= says;
            self.enter(decl, module, &mut names);
        }
        self.modules.all[module].names = names;
    }

    /// Lets types name `extern` constants without a value, for `pullback check`.
    pub fn link_later(&mut self) {
        self.modules.links_later = true;
    }

    /// Returns true if a type names a constant whose value is linked later.
    pub fn has_open_types(&self) -> bool {
        self.modules.has_open_types
    }

    /// Warns of each import of a module beside the file that has errors in parts which the file does not use.
    /// Modules of other folders are libraries.
    pub fn check_imports(&mut self, file: usize) {
        for import in self.ast.files[file].decls.clone() {
            let Some(&module) = self.modules.imported.get(&import) else { continue };
            if !self.siblings.contains(&self.ast.files[module].file) {
                continue;
            }
            let before = self.diagnostics.len();
            self.check_file(module);
            let mut errors = self.diagnostics.split_off(before);
            errors.retain(|d| d.severity == Severity::Error && d.code != "E0900" && !d.is_follow_up);
            let Some(first) = errors.first() else { continue };
            let message = match errors.len() {
                1 => "this module has an error".to_string(),
                n => format!("this module has {n} errors"),
            };
            let warning = Diagnostic::warning("E15302", self.name_span(import), message);
            let warning = warning.note(first.primary.span, first.message.clone());
            self.report(warning.help("what has no error can be used nevertheless"));
        }
    }

    /// Returns true if a file is that of a module, rather than a part of one.
    pub fn is_module(&self, file: FileId) -> bool {
        self.modules.imported.values().any(|&index| self.ast.files[index].file == file)
    }

    /// The files of the module that a file (by its index in `ast.files`) belongs to, the file itself first.
    pub fn sources_of_module(&self, index: usize) -> Vec<FileId> {
        let module = self.modules.of_index.get(&index);
        let others = (0..self.ast.files.len())
            .filter(|other| *other != index && self.modules.of_index.get(other) == module);
        std::iter::once(index).chain(others).map(|k| self.ast.files[k].file).collect()
    }

    /// The module of a declaration.
    pub(crate) fn module_of(&self, decl: DeclId) -> usize {
        self.modules.of_file.get(&self.ast.decls[decl].span.file).copied().unwrap_or(0)
    }

    /// Notes that a parsed file is of a module that comes with the compiler: what it does is not the user's to change.
    pub fn add_built_in(&mut self, index: usize) {
        self.modules.built_in.push(self.ast.files[index].file);
    }

    /// The files of the library and of the modules that come with it, in ascending order.
    pub fn library_files(&self) -> Vec<u32> {
        let is_core =
            |f: &FileId| self.modules.of_file.get(f) == Some(&0) || self.modules.built_in.contains(f);
        let mut files: Vec<u32> =
            self.ast.files.iter().map(|f| f.file).filter(is_core).map(|f| f.0).collect();
        files.sort_unstable();
        files
    }
}
