//! Writes loops, and what they keep.
//!
//! A carried value is one variable before, in and after its loop. What a loop keeps of every trip is an array or a
//! `Stack` with the number of the trip as its index; a value that only counts the trips is that number. The trip that
//! ends a loop counts, too.

use ir::{Inst, InstData, Op, TypeData, Value};

use crate::control::{Dest, Place, mentions, strip, words};
use crate::expression::Text;
use crate::statement::{Res, Writer};
use crate::types::{Bounds, OPEN, OPEN_INNER, declarator, is_open, literal};

impl Writer<'_> {
    /// An upper bound of a loop's trip count, if known.
    fn bound(&self, data: &InstData) -> Option<u32> {
        let info = match data.op {
            Op::For(info) | Op::Loop(info) => info,
            _ => return None,
        };
        if let Op::For(_) = data.op
            && let Ok(n) = self.text(data.args[0]).text.trim_end_matches(['u', 'l']).parse()
        {
            return Some(n);
        }
        info.max_iters
    }

    /// The carried value that counts the trips of a loop without a counter of its own.
    fn counting(&self, data: &InstData) -> Option<usize> {
        let Op::Loop(_) = data.op else { return None };
        let inner = &self.src.regions[data.regions[0]];
        (0..data.args.len()).find(|&k| {
            let (param, next) = (inner.params[k], inner.results[1 + k]);
            let is_next = |inst: &Inst| {
                let add = &self.src.insts[*inst];
                matches!(add.op, Op::Add)
                    && add.results[0] == next
                    && add.args[0] == param
                    && matches!(self.constant(add.args[1]), Some(1))
            };
            let scalar = self.module.types.scalar_of(self.src.ty(param));
            let starts = scalar.is_some_and(|s| s.is_int()) && self.constant(data.args[k]) == Some(0);
            starts && self.uses[next] == 1 && inner.insts.iter().any(is_next)
        })
    }

    pub(crate) fn repeat(&mut self, inst: Inst, place: &mut Place) -> Res {
        let data = &self.src.insts[inst];
        let counted = matches!(data.op, Op::For(_));
        let lead = usize::from(counted);
        let inner = &self.src.regions[data.regions[0]];
        let bound = self.bound(data);
        let n_carried = data.args.len() - lead;
        let counting = self.counting(data);
        self.check_stacks(inst)?;

        // Each carried value is a single variable, which also holds the result after the loop.
        let inits: Vec<String> = data.args[lead..].iter().map(|&v| self.text(v).text).collect();
        let mut dests = if counted { Vec::new() } else { vec![Dest::Again] };
        for k in 0..n_carried {
            if counting == Some(k) {
                dests.push(Dest::Nowhere);
                continue;
            }
            dests.push(Dest::Variable(self.carry(inst, k, &inits, place)?));
        }
        let n = match (counted, counting) {
            (true, _) => self.name(inner.params[0], "i"),
            (false, Some(k)) => self.name(inner.params[k], "trip"),
            (false, None) => self.temporary("trip"),
        };
        let at = match data.op {
            Op::For(info) if info.down => format!("{} - {n}", self.last_of(data.args[0])),
            _ => n.clone(),
        };
        let first = 1 - lead + n_carried;
        let mut stacks = Vec::new();
        for (&v, &stack) in inner.results[first..].iter().zip(&data.results[n_carried..]) {
            if self.uses[stack] == 0 {
                dests.push(Dest::Nowhere);
                continue;
            }
            let like = self.source_name(v).map_or("kept".into(), |name| format!("kept_{name}"));
            let name = self.temporary(&like);
            self.texts.insert(stack, Text::atom(name.clone()));
            let kept = format!("{name}[{at}]");
            dests.push(Dest::Kept { place: kept, may_be_full: bound.is_none() });
            stacks.push((v, stack, name));
        }
        let before = std::mem::take(&mut self.out);
        self.indent += 1;
        self.depth += 1;
        let body = self.region(data.regions[0], &dests, true)?;
        self.depth -= 1;
        let leading = body.leading;
        self.indent -= 1;
        let text = std::mem::replace(&mut self.out, before);
        self.at = data.span;
        for (v, stack, name) in &stacks {
            let mut bounds: Bounds = vec![bound.unwrap_or(if self.depth == 0 { OPEN } else { OPEN_INNER })];
            bounds.extend(self.bounds.get(v).into_iter().flatten());
            self.bounds.insert(*stack, bounds);
            let declaration = self.declaration(self.src.ty(*stack), name, *stack)?;
            self.line(&format!("{declaration} = {{}};"));
        }
        if counted {
            self.counted_head(data, &n, bound)?;
        } else {
            let condition = leading.as_deref().map_or("", strip);
            let is_counted = !stacks.is_empty()
                || mentions(&text, &n)
                || counting.is_some_and(|k| self.uses[data.results[k]] > 0);
            if is_counted {
                let (ty, zero) = match counting {
                    Some(k) => (self.src.ty(inner.params[k]), literal(self.scalar_of(inner.params[k]), 0)),
                    None => {
                        (self.src.ty(inner.params.first().copied().unwrap_or(inner.results[0])), "0u".into())
                    }
                };
                let ty = match counting {
                    Some(_) => declarator(&self.module.types, ty, &[], data.span)?.0,
                    None => "uint".into(),
                };
                self.line(&format!("{ty} {n} = {zero};"));
            }
            self.limit(bound);
            match (is_counted, condition) {
                (true, _) => self.line(&format!("for (; {condition}; {n}++)")),
                (false, "") => self.line("while (true)"),
                (false, _) => self.line(&format!("while ({condition})")),
            }
            if let Some(k) = counting {
                let one = literal(self.scalar_of(inner.params[k]), 1);
                self.texts.insert(data.results[k], Text::sum(&n, &one));
            }
        }
        self.line("{");
        self.out += &text;
        self.line("}");
        Ok(())
    }

    /// The name of a value in the source, or of what an arm of a branch yields for it.
    fn source_name(&self, v: Value) -> Option<String> {
        if self.constant(v).is_some() {
            return None;
        }
        if let Some(name) = &self.src.values[v].name {
            return Some(name.to_string());
        }
        let mut arms = Vec::new();
        self.src.walk(self.src.body(), &mut |inst| {
            let data = &self.src.insts[inst];
            if let (Op::If, Some(k)) = (&data.op, data.results.iter().position(|&r| r == v)) {
                arms.extend(data.regions.iter().map(|&arm| self.src.regions[arm].results[k]));
            }
        });
        arms.into_iter().find_map(|v| self.source_name(v))
    }

    /// The variable of a carried value: that of its destination, if this is free, or a new one.
    fn carry(&mut self, inst: Inst, k: usize, inits: &[String], place: &mut Place) -> Res<String> {
        let data = &self.src.insts[inst];
        let lead = data.op.carried_at().0;
        let inner = &self.src.regions[data.regions[0]];
        let (init, param, result) =
            (data.args[lead + k], inner.params[data.op.carried_at().1 + k], data.results[k]);
        self.share_bounds(init, param);
        self.open_bounds(param);
        self.share_bounds(param, result);
        let text = &inits[k];
        let others =
            |name: &str| inits.iter().enumerate().any(|(other, init)| other != k && mentions(init, name));
        let home = self.free_home(result, place, self.order.at(inst)).filter(|(home, name)| {
            matches!(place.dests[*home], Dest::Variable(_)) && !others(name) && text != "{}"
        });
        let name = match home {
            Some((home, name)) => {
                place.mark_done(home);
                if name != *text {
                    self.line(&format!("{name} = {text};"));
                }
                self.texts.insert(param, Text::atom(name.clone()));
                name
            }
            None => {
                let named = |v: Value| self.src.values[v].name.as_deref();
                let like = named(result).or(named(param)).map(str::to_owned);
                let name = match like {
                    Some(like) => self.names.fresh(&like),
                    None => self.temporary(match self.scalar_of(param) {
                        scalar if scalar.is_float() => "sum",
                        ir::Scalar::Bool => "flag",
                        _ => "count",
                    }),
                };
                let declaration = self.declaration(self.src.ty(param), &name, param)?;
                self.line(&format!("{declaration} = {text};"));
                self.texts.insert(param, Text::atom(name.clone()));
                name
            }
        };
        self.texts.insert(result, Text::atom(name.clone()));
        Ok(name)
    }

    fn counted_head(&mut self, data: &InstData, index: &str, bound: Option<u32>) -> Res {
        let is_down = matches!(data.op, Op::For(info) if info.down);
        let count = self.text(data.args[0]);
        let last = self.last_of(data.args[0]);
        let (ty, _) = declarator(&self.module.types, self.src.ty(data.args[0]), &[], data.span)?;
        let is_constant = count.text.starts_with(|c: char| c.is_ascii_digit());
        self.limit(bound.filter(|_| !is_constant));
        let scalar = self.scalar_of(data.args[0]);
        let zero = literal(scalar, 0);
        let head = match (is_down, scalar.is_signed_int()) {
            (true, true) if is_constant => {
                format!("for ({ty} {index} = {last}; {index} >= {zero}; {index}--)")
            }
            (true, _) => format!("for ({ty} {index} = {}; {index}-- > {zero};)", count.text),
            (false, _) => format!("for ({ty} {index} = {zero}; {index} < {}; {index}++)", count.operand()),
        };
        self.line(&head);
        Ok(())
    }

    /// Before a loop reads stacks that may be full, makes the results NaN if they were.
    fn check_stacks(&mut self, inst: Inst) -> Res {
        let data = &self.src.insts[inst];
        let mut open = None;
        self.src.walk(data.regions[0], &mut |inner| {
            let read = &self.src.insts[inner];
            let bounds = read.args.first().and_then(|v| self.bounds.get(v));
            let first = bounds.and_then(|b| b.first()).copied().filter(|&b| is_open(b));
            open = open.or(first.filter(|_| matches!(read.op, Op::Index)));
        });
        let Some(open) = open.filter(|_| matches!(data.op, Op::For(_))) else { return Ok(()) };
        let count = self.text(data.args[0]).operand();
        let capacity = self.stacks.library.capacity(open).to_owned();
        let before = std::mem::take(&mut self.out);
        self.indent += 1;
        let outs = self.gives.outs.clone();
        match self.gives.returned {
            Some(ty) => {
                let text = self.not_a_number(ty)?;
                self.line(&format!("return {text};"));
            }
            None => {
                for (name, ty) in &outs {
                    self.poison(name, *ty)?;
                }
                self.line("return;");
            }
        }
        self.indent -= 1;
        let text = std::mem::replace(&mut self.out, before);
        self.block(&format!("if ({count} > {capacity})"), &text);
        Ok(())
    }

    fn poison(&mut self, name: &str, ty: ir::Type) -> Res {
        match self.module.types[ty] {
            TypeData::Array(element, n) => {
                let i = self.temporary("i");
                self.line(&format!("for (int {i} = 0; {i} < {n}; {i}++)"));
                self.indent += 1;
                self.poison(&format!("{name}[{i}]"), element)?;
                self.indent -= 1;
                Ok(())
            }
            TypeData::Scalar(_) | TypeData::Vector(..) => {
                let text = self.not_a_number(ty)?;
                self.line(&format!("{name} = {text};"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// NaN, or zero of a type that has none.
    fn not_a_number(&mut self, ty: ir::Type) -> Res<String> {
        let name = crate::types::name(&self.module.types, ty, self.at)?;
        let is_float = self.module.types.scalar_of(ty).is_some_and(|s| s.is_float());
        Ok(match is_float {
            true if name == "float" => "asfloat(0x7FC00000u)".into(),
            true => format!("{name}(asfloat(0x7FC00000u))"),
            false => format!("{name}(0)"),
        })
    }

    /// `n - 1`.
    fn last_of(&self, n: Value) -> String {
        let text = self.text(n).text;
        let scalar = self.scalar_of(n);
        let number = text.trim_end_matches(['u', 'l']).parse::<u64>();
        match number {
            Ok(n) => literal(scalar, n.wrapping_sub(1)),
            Err(_) if words(&text).count() == 1 && !text.contains(' ') => {
                format!("{text} - {}", literal(scalar, 1))
            }
            Err(_) => format!("({text}) - {}", literal(scalar, 1)),
        }
    }

    fn limit(&mut self, bound: Option<u32>) {
        if let Some(n) = bound {
            self.line(&format!("[MaxIters({n})]"));
        }
    }
}
