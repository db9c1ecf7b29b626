//! `run`: binds memory, dispatches a kernel and prints buffers. Scripts depend on the printed format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use driver::bind;
use driver::inputs::{self, Unused};
use driver::launch::{self, Backend, CodeOptions, Runner};
use driver::pipeline::{self, Failure, Loaded};
use driver::{Error, Request, arrays, checkpoints, output};

use syntax::Sources;

use crate::args::RunArgs;
use crate::report::{self, Screen, Stop};

/// The outputs requested for the buffers after the run.
struct Outputs {
    /// Names to print, in this order; `None` for all.
    printed: Option<Vec<String>>,
    /// Buffers to write to files.
    files: Vec<(String, PathBuf)>,
}

impl Outputs {
    /// Refuses files that cannot be written, before a kernel runs for a long time.
    fn check(&self, sources: &Sources) -> Result<(), Stop> {
        let files = crate::outputs::Outputs::of(sources);
        self.files.iter().fold(files, |files, (_, path)| files.writes("--out", Some(path))).check()
    }
}

pub(crate) fn run(args: &RunArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        let groups = triple("--groups", &args.groups)?;
        let mut binds = report::binds(session, &args.memory)?;
        let conformances: Result<Vec<_>, Error> =
            args.conform.iter().map(|c| bind::parse_conformance(c)).collect();
        let conformances = conformances.map_err(report::usage)?;
        let outputs = outputs(&args.out)?;

        args.backend.prepare((!args.no_cache).then_some(args.source.file.as_path()));
        let mut loaded = pipeline::load(session, &args.source.file)?;
        outputs.check(&session.sources)?;
        loaded.errors()?;
        // A kernel without any memory has nothing to work on, whereas a `main` beside it needs none.
        let main = if args.entry.is_none() && binds.is_empty() { loaded.host_main() } else { None };
        let entry = match main {
            Some(main) => main,
            None => loaded.entry_or_derivative(session, args.entry.as_deref())?,
        };
        let entry_name = loaded.name(entry).to_string();
        let conformances = loaded.conformances(session, &conformances)?;
        let group_size = block(args.block.as_deref())?;
        let request = Request { entries: vec![entry], conformances, group_size, ..Request::default() };
        let backend = if args.check_races { Backend::INTERP } else { args.backend };
        let options = launch::options_for(&report::options(&args.compile), backend);
        let compiled = loaded.compile(&request, &options)?;
        report::warn(session, &compiled.warnings);
        if args.compile.report_checkpoints {
            report::err(&checkpoints::text(&session.sources, &compiled.kept));
        }
        let options = CodeOptions {
            trap: args.trap,
            lanes: args.lanes.lanes,
            deterministic: args.deterministic,
            flush_subnormals: args.flush_subnormals,
            fast_math: args.compile.fast_math,
            cache: !args.no_cache,
            ..args.limits.limits()
        };
        let threads = compiled.module.entries.first().map_or([1; 3], |e| e.group_size);
        check_groups(groups, threads)?;
        let mut runner = Runner::with_pointers(compiled.module, &binds, backend, &options)?;
        if let Some(warning) = inputs::bind_in_order(&loaded, &runner, &mut binds) {
            report::err(&format!("{warning}\n"));
        }
        let unused = inputs::bind(&mut loaded, &mut runner, &binds)?;
        if !args.json {
            // With `--json`, a single object holds all the output at the end.
            runner.set_console(Arc::new(Screen));
        }
        check_outputs(&loaded, &runner, &outputs)?;

        let mut stdout = String::new();
        let mut seconds = Vec::new();
        let mut races = Vec::new();
        for _ in 0..args.repeat.unwrap_or(1) {
            let done = if args.check_races {
                runner.find_races(&entry_name, groups).map(|(done, found)| {
                    races.extend(found);
                    done
                })
            } else {
                runner.dispatch(&entry_name, groups, args.threads.unwrap_or(0))
            };
            if done.is_err() && report::is_lost() {
                return Ok(0);
            }
            let done = done?;
            stdout += &done.stdout;
            seconds.push(done.seconds);
        }
        if !races.is_empty() {
            return Err(Stop::from(Failure::Program(pipeline::in_order(races))));
        }
        let seconds = args.repeat.map(|_| seconds);
        print(args, &runner, &unused, &outputs, &stdout, seconds.as_deref())?;
        let errors = loaded.errors_elsewhere();
        if errors > 0 {
            let (errors, them) = if errors == 1 {
                ("an error".to_string(), "it")
            } else {
                (format!("{errors} errors"), "them")
            };
            let file = args.source.file.display();
            report::err(&format!(
                "note: the file has {errors} in what was not run: `pullback check {file}` shows {them}\n"
            ));
        }
        Ok(0)
    })
}

/// The threads of a group that `--block` gives.
pub(crate) fn block(text: Option<&str>) -> Result<Option<[u32; 3]>, Stop> {
    let size = text.map(|text| triple("--block", text)).transpose()?;
    if let Some([x, y, z]) = size
        && u128::from(x) * u128::from(y) * u128::from(z) > 1024
    {
        return Err(Stop::Usage(format!("`--block {x},{y},{z}`: a thread group has at most 1024 threads")));
    }
    Ok(size)
}

/// The maximum number of threads of a dispatch: at ten billion threads per second they take two minutes.
const MOST_THREADS: u128 = 1 << 40;

/// Returns an error if thread indices do not fit their type, or if there are too many threads to ever finish.
pub(crate) fn check_groups(groups: [u32; 3], size: [u32; 3]) -> Result<(), Stop> {
    let threads: [u64; 3] = std::array::from_fn(|k| u64::from(groups[k]) * u64::from(size[k]));
    let all: u128 = threads.iter().map(|&n| u128::from(n)).product();
    let [x, y, z] = groups;
    if threads.iter().any(|&n| n > 1 << 32) {
        return Err(Stop::Usage(format!(
            "`--groups {x},{y},{z}`: the numbers of threads do not fit in 32 bits"
        )));
    }
    if all > MOST_THREADS {
        return Err(Stop::Usage(format!(
            "`--groups {x},{y},{z}`: {all} threads are more than 2^40, which no machine runs in minutes"
        )));
    }
    Ok(())
}

pub(crate) fn triple(option: &str, text: &str) -> Result<[u32; 3], Stop> {
    let wrong = || Stop::Usage(format!("`{option} {text}`: expected X[,Y[,Z]], each at least 1"));
    let mut groups = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(wrong());
    }
    for (slot, part) in groups.iter_mut().zip(parts) {
        *slot = part.trim().parse().map_err(|_| wrong())?;
        if *slot == 0 {
            return Err(wrong());
        }
    }
    Ok(groups)
}

fn outputs(texts: &[String]) -> Result<Outputs, Stop> {
    if texts.iter().any(|text| text == "none")
        && texts.iter().any(|text| text != "none" && !text.contains('='))
    {
        return Err(Stop::Usage("`--out none` prints no buffer, another `--out` one".into()));
    }
    let mut outputs = Outputs { printed: None, files: Vec::new() };
    for text in texts {
        match text.split_once('=') {
            None if text == "none" => {
                outputs.printed.get_or_insert_default();
            }
            None => outputs.printed.get_or_insert_default().push(text.clone()),
            Some((name, file)) => {
                let path = file.strip_prefix('@').filter(|p| !p.is_empty());
                let path = path.ok_or_else(|| {
                    Stop::Usage(format!(
                        "`--out {text}`: expected NAME=@FILE, with .npy or a picture's ending"
                    ))
                })?;
                outputs.files.push((name.to_string(), path.into()));
            }
        }
    }
    Ok(outputs)
}

fn check_outputs(loaded: &Loaded, runner: &Runner, outputs: &Outputs) -> Result<(), Error> {
    let names = outputs.printed.iter().flatten().chain(outputs.files.iter().map(|f| &f.0));
    for name in names {
        if runner.find(name).is_none() && !loaded.declares_global(name) {
            return Err(Error::input(format!("`--out {name}`: the program has no buffer of that name")));
        }
    }
    Ok(())
}

fn print(
    args: &RunArgs,
    runner: &Runner,
    unused: &[Unused],
    outputs: &Outputs,
    stdout: &str,
    seconds: Option<&[f64]>,
) -> Result<(), Error> {
    let mem = runner.mem();
    // A file that cannot be written keeps no other result from the user.
    let written = outputs.files.iter().map(|(name, path)| write(runner, name, path));
    let written = written.collect::<Vec<_>>().into_iter().collect::<Result<(), Error>>();
    let wanted = |name: &str| match &outputs.printed {
        Some(names) => names.iter().any(|n| n == name),
        None => !outputs.files.iter().any(|f| f.0 == name),
    };
    let in_file = |name: &str| outputs.files.iter().any(|f| f.0 == name);
    let globals: Vec<_> = match &outputs.printed {
        Some(names) => names.iter().filter_map(|n| Some((&n[..], runner.find(n)?))).collect(),
        None => runner
            .globals()
            .filter(|(g, _)| runner.is_writable(*g) && !runner.of_pointers(*g) && !in_file(runner.name(*g)))
            .map(|(g, _)| (runner.name(g), g))
            .collect(),
    };
    let globals = globals.into_iter().map(|(name, g)| {
        let shape = runner.tensor(g).map(|t| &t.shape[..]);
        (name, mem, runner.element_of(g), runner.bytes_of(g), shape)
    });
    let unused = unused.iter().filter(|u| wanted(&u.name));
    let shown = globals.chain(unused.map(|u| (&u.name[..], &u.mem, u.element, &u.bytes[..], None)));
    let shown: Vec<_> = shown.collect();
    for (name, _, _, bytes, _) in &shown {
        output::expect_room(name, bytes.len())?;
    }
    let shown = shown.into_iter();
    let mut text = String::new();
    if args.json {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let buffers: Vec<String> = shown
            .map(|(name, mem, element, bytes, shape)| {
                format!("{}:{}", quoted(name), output::buffer_json(mem, element, bytes, shape))
            })
            .collect();
        text += &format!("{{\"buffers\":{{{}}},\"stdout\":{}", buffers.join(","), quoted(stdout));
        if let Some(seconds) = seconds {
            let list: Vec<String> = seconds.iter().map(|s| format!("{s}")).collect();
            text += &format!(",\"seconds\":[{}]", list.join(","));
        }
        text.push_str("}\n");
    } else {
        for (name, mem, element, bytes, _) in shown {
            text += &format!("{name}: {}\n", output::buffer_text(mem, element, bytes));
        }
    }
    report::out(&text);
    for s in seconds.into_iter().flatten() {
        report::err(&format!("{s:.9} s\n"));
    }
    written
}

/// Writes a buffer to a file.
fn write(runner: &Runner, name: &str, path: &Path) -> Result<(), Error> {
    let Some(global) = runner.find(name) else { return Ok(()) };
    let mut array = output::buffer_array(runner.mem(), runner.element_of(global), runner.bytes_of(global))?;
    if let Some(tensor) = runner.tensor(global) {
        array.shape = tensor.shape.clone();
    }
    arrays::write(path, &array)
}
