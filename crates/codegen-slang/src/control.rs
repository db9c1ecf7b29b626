//! Writes regions and branches.
//!
//! Each result of a region has a destination: the variable that holds it afterwards, or the place in an array where a
//! loop keeps it. A value that is only computed to be yielded is assigned to its destination at once, also deep
//! inside nested branches, so no variable has to be copied to another one. The value that says whether a loop goes
//! on, and the result of a function, have no variable: where they are yielded, the text has `break` or `return`.
//! The arm that does not leave is then written after the branch rather than inside it.
//!
//! Variables change, values do not: before a variable is assigned, every expression in which it stands and which is
//! used later must have been written (`Writer::can_change`, `Writer::settle`).

use ir::{Inst, InstData, Op, Region, TypeData, Value};

use crate::expression::{Text, is_infix};
use crate::statement::{Res, Writer};
use crate::unsupported::refused;

/// Where a result of a region goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dest {
    /// It is not used, or its variable has the value already.
    Nowhere,
    /// A variable.
    Variable(String),
    /// A place in an array, which is zero so far.
    Kept {
        place: String,
        /// The array may be full, so what it should hold cannot be read back at once.
        may_be_full: bool,
    },
    /// A loop goes on if the value is true.
    Again,
    /// The function returns the value.
    Return,
}

impl Dest {
    fn place(&self) -> Option<&str> {
        match self {
            Dest::Variable(text) | Dest::Kept { place: text, .. } => Some(text),
            Dest::Nowhere | Dest::Again | Dest::Return => None,
        }
    }

    fn leaves(&self) -> bool {
        matches!(self, Dest::Again | Dest::Return)
    }
}

/// The region that is being written.
#[derive(Debug)]
pub(crate) struct Place<'d> {
    region: Region,
    end: u32,
    pub(crate) dests: &'d [Dest],
    /// The results that have been assigned.
    done: Vec<bool>,
    /// The instruction that is written last, if it is a branch.
    last: Option<Inst>,
    is_loop_body: bool,
    /// The condition under which a loop's body goes on after its first statement.
    pub(crate) leading: Option<String>,
    leaves: bool,
}

impl Place<'_> {
    pub(crate) fn region(&self) -> Region {
        self.region
    }

    /// Marks a result as assigned.
    pub(crate) fn mark_done(&mut self, k: usize) {
        self.done[k] = true;
    }

    /// Returns true if a loop keeps the result of every trip.
    pub(crate) fn is_kept(&self, k: usize) -> bool {
        matches!(self.dests[k], Dest::Kept { .. })
    }

    /// Returns true if a loop keeps the result of every trip in an array that may be full.
    pub(crate) fn may_be_full(&self, k: usize) -> bool {
        matches!(self.dests[k], Dest::Kept { may_be_full: true, .. })
    }
}

/// A written arm of a branch.
struct Arm {
    text: String,
    leaves: bool,
}

impl Writer<'_> {
    /// Writes a region whose results go to `dests`.
    pub(crate) fn region<'d>(
        &mut self,
        region: Region,
        dests: &'d [Dest],
        is_loop_body: bool,
    ) -> Res<Place<'d>> {
        let src = self.src;
        let insts = &src.regions[region].insts;
        let last = insts.last().copied().filter(|&i| matches!(src.insts[i].op, Op::If));
        let (end, done) = (self.order.end(region), vec![false; dests.len()]);
        let mut place = Place { region, end, dests, done, last, is_loop_body, leading: None, leaves: false };
        // What is kept of the variables is kept before they change.
        let mut made = rustc_hash::FxHashSet::default();
        insts.iter().for_each(|&i| made.extend(src.insts[i].results.iter().copied()));
        self.assign_kept(&mut place, &|v| !made.contains(&v));
        for &inst in insts {
            self.inst(inst, &mut place)?;
        }
        if !place.leaves {
            self.assign_rest(&mut place)?;
        }
        Ok(place)
    }

    /// The destination that a value may be assigned to as soon as it is known, with its number.
    pub(crate) fn home(&self, v: Value, place: &Place) -> Option<usize> {
        let results = &self.src.regions[place.region].results;
        let mut found =
            results.iter().enumerate().filter(|(k, r)| **r == v && place.dests[*k] != Dest::Nowhere);
        let (k, _) = found.next()?;
        (found.next().is_none() && !place.done[k]).then_some(k)
    }

    /// The home of an expression whose destination may change after `from`.
    pub(crate) fn free_home(&self, v: Value, place: &Place, from: u32) -> Option<(usize, String)> {
        let k = self.home(v, place)?;
        let text = place.dests[k].place()?;
        self.can_change(text, from, place.end).then(|| (k, text.to_owned()))
    }

    /// Returns true if no expression that is used after `from` mentions a place.
    fn can_change(&self, place: &str, from: u32, end: u32) -> bool {
        !self
            .texts
            .iter()
            .any(|(&v, text)| mentions(&text.text, place) && self.order.is_used_within(v, from, end))
    }

    /// Gives names to the expressions that mention a place which changes now, and that are used later.
    fn settle(&mut self, place: &str, from: u32, end: u32) -> Res {
        // A cell is a place, whose name is no reading of it.
        let is_cell = |v: Value| matches!(self.module.types[self.src.ty(v)], TypeData::Cell(_));
        let is_late = |v: &Value, text: &Text| {
            !is_cell(*v) && mentions(&text.text, place) && self.order.is_used_within(*v, from, end)
        };
        let mut late: Vec<Value> =
            self.texts.iter().filter(|(v, t)| is_late(v, t)).map(|(v, _)| *v).collect();
        late.sort();
        for v in late {
            let text = self.text(v).text;
            self.products.remove(&v);
            self.define(v, "before", &text)?;
        }
        Ok(())
    }

    /// Gives a name to the condition for leaving a region if it mentions places that are assigned before it is tested.
    fn settle_leaving(&mut self, place: &Place, assigned: &[&str]) -> Res {
        for (k, &v) in self.src.regions[place.region].results.iter().enumerate() {
            let text = self.text(v);
            let is_due = place.dests[k].leaves() && !place.done[k] && self.texts.contains_key(&v);
            if !is_due || !assigned.iter().any(|name| mentions(&text.text, name)) {
                continue;
            }
            if text.text.starts_with('!') && place.dests[k] == Dest::Again {
                let name = self.temporary("ends");
                self.line(&format!("bool {name} = {};", text.negated()));
                self.texts.insert(v, Text::not(&name));
            } else {
                self.define(v, "goes_on", strip(&text.text))?;
            }
        }
        Ok(())
    }

    /// Gives names to the expressions that read a cell which an instruction changes, and that are used after it, or in
    /// its regions.
    pub(crate) fn settle_cells(&mut self, inst: Inst) -> Res {
        for cell in self.order.changed_cells(inst).to_vec() {
            let Some(text) = self.texts.get(&cell).map(|t| t.text.clone()) else { continue };
            if let Some(name) = words(&text).next() {
                self.settle(name, self.order.at(inst), u32::MAX)?;
            }
        }
        Ok(())
    }

    /// Assigns the results that are not assigned yet, all at once in meaning, and leaves if that is due.
    fn assign_rest(&mut self, place: &mut Place) -> Res {
        self.assign_before_leaving(place, &|_| true)?;
        let results = self.src.regions[place.region].results.clone();
        for (k, &v) in results.iter().enumerate() {
            let text = self.text(v);
            match place.dests[k] {
                Dest::Again if !place.done[k] => match text.text.as_str() {
                    "true" => {}
                    "false" => {
                        self.line("break;");
                        place.leaves = true;
                    }
                    _ => self.break_unless(&text, place),
                },
                Dest::Return if !place.done[k] => {
                    self.line(&format!("return {};", text.text));
                    place.leaves = true;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn break_unless(&mut self, condition: &Text, place: &mut Place) {
        if place.is_loop_body && self.out.is_empty() && place.leading.is_none() {
            place.leading = Some(condition.text.clone());
        } else {
            self.line(&format!("if ({}) break;", condition.negated()));
        }
    }

    /// Assigns those results for which `is_due` holds.
    fn assign_before_leaving(&mut self, place: &mut Place, is_due: &dyn Fn(Value) -> bool) -> Res {
        let results = self.src.regions[place.region].results.clone();
        let mut next: Vec<(usize, String, String, Value)> = Vec::new();
        for (k, &v) in results.iter().enumerate() {
            let Some(name) = place.dests[k].place().filter(|_| !place.done[k] && is_due(v)) else { continue };
            if !self.texts.contains_key(&v) {
                continue;
            }
            let text = self.text(v).text;
            place.done[k] = true;
            let is_zero = place.is_kept(k) && self.is_zero(v);
            if name != text && !is_zero {
                next.push((k, name.to_owned(), text, v));
            }
        }
        self.settle_leaving(place, &next.iter().map(|n| n.1.as_str()).collect::<Vec<_>>())?;
        while !next.is_empty() {
            // A place that no other assignment reads can be changed now.
            let reads = |a: usize, b: usize| a != b && mentions(&next[a].2, &next[b].1);
            let all = 0..next.len();
            let Some(at) = all.clone().find(|&k| !all.clone().any(|other| reads(other, k))) else {
                // Each is read by another, so one that reads another is computed before.
                let reader = all.clone().find(|&k| all.clone().any(|other| reads(k, other))).unwrap_or(0);
                let (_, name, text, v) = next[reader].clone();
                let temporary = self.temporary(&format!("next_{name}"));
                let declaration = self.declaration(self.src.ty(v), &temporary, v)?;
                self.line(&format!("{declaration} = {text};"));
                next[reader].2 = temporary;
                continue;
            };
            let (_, name, text, v) = next.remove(at);
            let end = place.end;
            // A branch that is still to be written reads its condition.
            let open = place.last.filter(|_| !place.leaves && self.is_open(place));
            let from = open.map_or(end, |i| self.order.at(i) - 1);
            self.settle(&name, from, end)?;
            self.assign(&name, &text, v)?;
        }
        Ok(())
    }

    /// Assigns those results for which `is_due` holds to the places where a loop keeps them.
    fn assign_kept(&mut self, place: &mut Place, is_due: &dyn Fn(Value) -> bool) {
        for (k, &v) in self.src.regions[place.region].results.iter().enumerate() {
            let Dest::Kept { place: name, .. } = &place.dests[k] else { continue };
            if !place.done[k] && is_due(v) && self.texts.contains_key(&v) {
                place.done[k] = true;
                if !self.is_zero(v) {
                    let text = self.text(v).text;
                    self.line(&format!("{name} = {text};"));
                }
            }
        }
    }

    /// Returns true if the last branch of the region is still to be written.
    fn is_open(&self, place: &Place) -> bool {
        place.last.is_some_and(|i| !self.order.is_begun(i))
    }

    /// `place = text`, or `place += …` where the text says so.
    pub(crate) fn assign(&mut self, place: &str, text: &str, v: Value) -> Res {
        let compound = self.compound.get(&v).filter(|(a, op, b)| text == format!("{a} {op} {b}"));
        let line = match compound {
            Some((a, op, b)) if a == place => format!("{place} {op}= {};", strip(b)),
            Some((a, op, b)) if b == place && *op != "-" => format!("{place} {op}= {a};"),
            _ => format!("{place} = {text};"),
        };
        self.line(&line);
        Ok(())
    }

    fn is_zero(&self, v: Value) -> bool {
        matches!(
            self.text(v).text.as_str(),
            "0.0" | "0" | "0u" | "false" | "0.0l" | "0.0h" | "0ll" | "0ull" | "{}"
        )
    }

    /// Decides where the results of a branch go; variables that are new are to be declared.
    fn branch_dests(&mut self, inst: Inst, place: &mut Place) -> Res<(Vec<Dest>, Vec<usize>)> {
        let data = &self.src.insts[inst];
        let is_if = matches!(data.op, Op::If);
        let (mut dests, mut fresh) = (Vec::new(), Vec::new());
        // A branch may leave only if nothing has to be written after it.
        let homes: Vec<Option<usize>> = data.results.iter().map(|&v| self.home(v, place)).collect();
        let fits = |k: usize, v: Value| match (homes[k], self.uses[v]) {
            (_, 0) => true,
            (None, _) => false,
            (Some(home), uses) => uses == 1 || !place.dests[home].leaves(),
        };
        let may_leave = is_if
            && place.last == Some(inst)
            && data.results.iter().enumerate().all(|(k, &v)| fits(k, v))
            && homes.iter().flatten().any(|&h| place.dests[h].leaves());
        if may_leave {
            let made = data.results.clone();
            self.assign_before_leaving(place, &|v| !made.contains(&v))?;
        }
        for (k, &v) in data.results.iter().enumerate() {
            let home = homes[k].filter(|&h| match &place.dests[h] {
                Dest::Again | Dest::Return => may_leave,
                // Every other result of the region has been assigned.
                dest if may_leave => dest.place().is_some(),
                _ if place.may_be_full(h) && self.uses[v] > 1 => false,
                dest => dest.place().is_some_and(|p| self.can_change(p, self.order.after(inst), place.end)),
            });
            match home {
                _ if self.uses[v] == 0 => dests.push(Dest::Nowhere),
                Some(home) => {
                    place.done[home] = true;
                    dests.push(place.dests[home].clone());
                }
                None => {
                    fresh.push(k);
                    let like = self.src.values[v].name.clone();
                    let name = match like.as_deref() {
                        Some(like) => self.names.fresh(like),
                        None => self.temporary("t"),
                    };
                    dests.push(Dest::Variable(name));
                }
            }
        }
        Ok((dests, fresh))
    }

    /// Writes the arms of a branch, each into a text of its own.
    fn arms(&mut self, inst: Inst, dests: &[Vec<Dest>]) -> Res<Vec<Arm>> {
        let data = &self.src.insts[inst];
        let mut arms = Vec::new();
        let known = self.texts.clone();
        self.indent += 1;
        for (&region, dests) in data.regions.iter().zip(dests) {
            let before = std::mem::take(&mut self.out);
            let leaves = self.region(region, dests, false)?.leaves;
            for (&v, &result) in self.src.regions[region].results.iter().zip(&data.results) {
                if let Some(bounds) = self.bounds.get(&v).filter(|bounds| !bounds.is_empty()) {
                    if self.bounds.get(&result).is_some_and(|known| !known.is_empty() && known != bounds) {
                        return Err(refused(data.span, "a choice between what two loops keep"));
                    }
                    self.share_bounds(v, result);
                }
            }
            arms.push(Arm { text: std::mem::replace(&mut self.out, before), leaves });
            self.texts = known.clone();
        }
        self.indent -= 1;
        Ok(arms)
    }

    /// Declares the new variables of a branch, with the values that an arm without instructions yields.
    fn declare_results(
        &mut self,
        data: &InstData,
        dests: &[Dest],
        fresh: &[usize],
        inits: &[Option<Text>],
    ) -> Res {
        for &k in fresh {
            let (v, name) = (data.results[k], dests[k].place().unwrap_or_default().to_owned());
            let declaration = self.declaration(self.src.ty(v), &name, v)?;
            match &inits[k] {
                Some(text) => self.line(&format!("{declaration} = {};", text.text)),
                None if self.is_array(v) => self.line(&format!("{declaration} = {{}};")),
                None => self.line(&format!("{declaration};")),
            }
        }
        Ok(())
    }

    /// Refers to the results of a branch by their variables.
    fn name_results(&mut self, data: &InstData, dests: &[Dest]) {
        for (&v, dest) in data.results.iter().zip(dests) {
            if let Some(text) = dest.place() {
                self.texts.insert(v, Text::atom(text));
            }
        }
    }

    pub(crate) fn branch(&mut self, inst: Inst, place: &mut Place) -> Res {
        let data = &self.src.insts[inst];
        let (dests, fresh) = self.branch_dests(inst, place)?;
        self.order.begin(inst);
        let condition = self.text(data.args[0]);
        // An arm without instructions gives the variables of the other one their first values.
        let empty = (0..2).rev().find(|&k| self.src.regions[data.regions[k]].insts.is_empty());
        let mut inits = vec![None; data.results.len()];
        let mut of_arms = [dests.clone(), dests.clone()];
        if let Some(arm) = empty {
            for &k in &fresh {
                let v = self.src.regions[data.regions[arm]].results[k];
                if self.texts.contains_key(&v) {
                    inits[k] = Some(self.text(v));
                    of_arms[arm][k] = Dest::Nowhere;
                }
            }
        }
        let arms = self.arms(inst, &of_arms)?;
        self.declare_results(data, &dests, &fresh, &inits)?;
        self.name_results(data, &dests);
        let [then, otherwise] = &arms[..] else { return Ok(()) };
        place.leaves = then.leaves && otherwise.leaves;
        match (then.text.is_empty(), otherwise.text.is_empty()) {
            (true, true) => {}
            _ if then.leaves => {
                self.leave_if(&condition, &then.text, place, true);
                self.out += &outdented(&otherwise.text);
            }
            _ if otherwise.leaves => {
                self.leave_if(&condition, &otherwise.text, place, false);
                self.out += &outdented(&then.text);
            }
            (true, false) => self.block(&format!("if ({})", condition.negated()), &otherwise.text),
            (false, true) => self.block(&format!("if ({})", strip(&condition.text)), &then.text),
            (false, false) => {
                self.own_block(&format!("if ({})", strip(&condition.text)), &then.text);
                self.own_block("else", &otherwise.text);
            }
        }
        Ok(())
    }

    /// Writes a branch that leaves if a condition is `holds`.
    fn leave_if(&mut self, condition: &Text, text: &str, place: &mut Place, holds: bool) {
        let (leaves, goes_on) = match holds {
            true => (strip(&condition.text).to_owned(), condition.negated()),
            false => (condition.negated(), strip(&condition.text).to_owned()),
        };
        let is_first = place.is_loop_body && self.out.is_empty() && place.leading.is_none();
        if text.trim() == "break;" && is_first {
            place.leading = Some(goes_on);
        } else {
            self.block(&format!("if ({leaves})"), text);
        }
    }

    /// Writes a block that no `else` follows; a branch that is all of it adds its condition to the head.
    pub(crate) fn block(&mut self, head: &str, text: &str) {
        if let Some((inner, text)) = only_branch(text)
            && let Some(condition) = head.strip_prefix("if (").and_then(|h| h.strip_suffix(')'))
        {
            let joined = format!("if ({} && {})", conjunct(condition), conjunct(inner));
            self.block(&joined, &outdented(&text));
            return;
        }
        self.own_block(head, text);
    }

    /// Writes a block under its own head; one short statement needs no braces.
    fn own_block(&mut self, head: &str, text: &str) {
        let one = text.trim();
        let is_simple = text.lines().count() == 1 && one.ends_with(';') && !one.starts_with("if ");
        if is_simple && (one == "break;" || one.starts_with("return ")) && head.len() + one.len() < 90 {
            self.line(&format!("{head} {one}"));
            return;
        }
        self.line(head);
        if is_simple && is_statement(one) {
            self.out += text;
            return;
        }
        self.line("{");
        self.out += text;
        self.line("}");
    }

    pub(crate) fn switch(&mut self, inst: Inst, cases: &[i64], place: &mut Place) -> Res {
        let data = &self.src.insts[inst];
        let tag = self.text(data.args[0]).text;
        let (dests, fresh) = self.branch_dests(inst, place)?;
        self.indent += 1;
        let arms = self.arms(inst, &vec![dests.clone(); data.regions.len()]);
        self.indent -= 1;
        let arms = arms?;
        self.declare_results(data, &dests, &fresh, &vec![None; data.results.len()])?;
        self.name_results(data, &dests);
        self.line(&format!("switch ({})", strip(&tag)));
        self.line("{");
        let heads = cases.iter().map(|c| format!("case {c}:")).chain(["default:".to_string()]);
        for (head, arm) in heads.zip(&arms) {
            self.line(&head);
            self.line("{");
            self.out += &outdented(&arm.text);
            self.line("    break;");
            self.line("}");
        }
        self.line("}");
        Ok(())
    }
}

/// The condition and the content of a branch without `else` that is all of a text.
fn only_branch(text: &str) -> Option<(&str, String)> {
    let mut lines = text.lines();
    let head = lines.next()?;
    let indent = &head[..head.len() - head.trim_start().len()];
    let condition = head.trim_start().strip_prefix("if (")?.strip_suffix(')')?;
    let rest: Vec<&str> = lines.collect();
    let is_at_margin = |line: &&&str| line.strip_prefix(indent).is_some_and(|rest| !rest.starts_with(' '));
    let content = match rest[..] {
        [open, ref inner @ .., close] if open.trim() == "{" && close.trim() == "}" => inner,
        [_] => &rest[..],
        _ => return None,
    };
    let text = content.iter().map(|line| format!("{line}\n")).collect();
    (!content.iter().any(|line| is_at_margin(&line))).then_some((condition, text))
}

/// A condition as an operand of `&&`.
fn conjunct(text: &str) -> String {
    let is_loose = text.contains("||") || text.contains('?') || text.contains("&&") && text.contains('(');
    if is_loose { format!("({text})") } else { text.to_owned() }
}

/// Returns true for a line that is a statement without a block or declaration.
fn is_statement(line: &str) -> bool {
    let head = line.split(['=', '(']).next().unwrap_or(line).trim_end_matches(['+', '-', '*', ' ']);
    !head.contains(' ') && !line.contains('{')
}

/// The text one level further left.
fn outdented(text: &str) -> String {
    text.lines().map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n").collect()
}

/// A text without parentheses around all of it.
pub(crate) fn strip(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) else { return text };
    let mut depth = 0;
    for c in inner.chars() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return text,
            ')' => depth -= 1,
            _ => {}
        }
    }
    if is_infix(inner) { inner } else { text }
}

/// Returns true if a text mentions a variable, or a place by the name of its array.
pub(crate) fn mentions(text: &str, place: &str) -> bool {
    let name = place.split(['[', '.']).next().unwrap_or(place);
    if name == place { words(text).any(|word| word == name) } else { text.contains(place) }
}

/// The identifiers and keywords in a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}
