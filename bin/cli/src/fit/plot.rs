//! Plots of curves and points.

use embedded_graphics::mono_font::ascii::{FONT_6X10, FONT_10X20};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Circle, Line, PrimitiveStyle};
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};

use super::picture::Picture;

const WIDTH: usize = 900;
const HEIGHT: usize = 520;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 56.0;
const INK: Rgb888 = Rgb888::new(60, 60, 67);
const GRID: Rgb888 = Rgb888::new(224, 226, 230);
/// The colours of the curves, in turn: blue, orange, green, purple, teal, red, brown, grey.
const COLOURS: [Rgb888; 8] = [
    Rgb888::new(32, 98, 184),
    Rgb888::new(208, 102, 24),
    Rgb888::new(58, 140, 62),
    Rgb888::new(132, 80, 168),
    Rgb888::new(24, 140, 150),
    Rgb888::new(190, 48, 60),
    Rgb888::new(128, 92, 60),
    Rgb888::new(120, 124, 130),
];

/// A plot.
pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    /// The name of the horizontal axis.
    pub(super) axis: &'a str,
    pub(super) curves: Vec<Curve>,
    /// The vertical axis is logarithmic if all numbers are positive.
    pub(super) may_be_logarithmic: bool,
}

/// A curve, or points.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Single points, which no line connects.
    pub(super) is_scattered: bool,
    /// The number of the colour, if it is not that of the curve.
    pub(super) colour: Option<usize>,
}

impl Curve {
    /// A line through points.
    pub(super) fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Curve {
        Curve { name: name.into(), points, is_scattered: false, colour: None }
    }
}

/// The range of an axis and its place in the picture.
struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    fn new(numbers: impl Iterator<Item = f64>, (start, end): (f64, f64)) -> Axis {
        let (from, to) =
            numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        Axis { from, to, start, end }
    }

    /// Leaves room for a share of the range at both ends.
    fn widen(&mut self, share: f64) {
        let margin = ((self.to - self.from) * share).max(1e-6 + self.from.abs() * 1e-6);
        (self.from, self.to) = (self.from - margin, self.to + margin);
    }

    fn at(&self, x: f64) -> f64 {
        self.start + (x - self.from) / (self.to - self.from) * (self.end - self.start)
    }
}

impl Plot<'_> {
    /// Draws the plot; numbers that are not finite are left out.
    pub(super) fn draw(&self) -> Picture {
        let mut picture = Picture::new(WIDTH, HEIGHT, [255; 3]);
        text(&mut picture, (LEFT, 22.0), self.title, &FONT_10X20, Alignment::Left);
        let is_shown = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite();
        let all = || self.curves.iter().flat_map(|c| &c.points).filter(is_shown);
        if all().next().is_none() {
            let at = (LEFT, HEIGHT as f64 / 2.0);
            text(&mut picture, at, "no finite number", &FONT_10X20, Alignment::Left);
            return picture;
        }
        let is_logarithmic = self.may_be_logarithmic && all().all(|p| p.1 > 0.0);
        let height = |y: f64| if is_logarithmic { y.log10() } else { y };
        let (end_x, end_y) = (WIDTH as f64 - RIGHT, HEIGHT as f64 - BOTTOM);
        let mut across = Axis::new(all().map(|p| p.0), (LEFT, end_x));
        let mut up = Axis::new(all().map(|p| height(p.1)), (end_y, TOP));
        if across.to - across.from <= 0.0 {
            across.to = across.from + 1.0;
        }
        up.widen(0.05);
        if self.curves.iter().any(|c| c.is_scattered) {
            across.widen(0.02);
        }
        for tick in ticks(across.from, across.to) {
            let x = across.at(tick);
            line(&mut picture, &[(x, TOP), (x, end_y)], GRID, 1);
            text(&mut picture, (x, end_y + 14.0), &label(tick), &FONT_6X10, Alignment::Center);
        }
        for tick in ticks(up.from, up.to) {
            let y = up.at(tick);
            line(&mut picture, &[(LEFT, y), (end_x, y)], GRID, 1);
            let label = label(if is_logarithmic { 10f64.powf(tick) } else { tick });
            text(&mut picture, (LEFT - 8.0, y), &label, &FONT_6X10, Alignment::Right);
        }
        line(&mut picture, &[(LEFT, TOP), (LEFT, end_y), (end_x, end_y)], INK, 1);
        for (curve, colour) in self.coloured() {
            let shown = curve.points.iter().filter(is_shown);
            let places: Vec<(f64, f64)> = shown.map(|p| (across.at(p.0), up.at(height(p.1)))).collect();
            match places[..] {
                _ if curve.is_scattered => places.iter().for_each(|&p| dot(&mut picture, p, colour)),
                [p] => dot(&mut picture, p, colour),
                _ => line(&mut picture, &places, colour, 2),
            }
        }
        self.legend(&mut picture, end_x);
        let middle = ((LEFT + end_x) / 2.0, end_y + 36.0);
        text(&mut picture, middle, self.axis, &FONT_6X10, Alignment::Center);
        picture
    }

    /// The curves with their colours.
    fn coloured(&self) -> impl Iterator<Item = (&Curve, Rgb888)> {
        let curves = self.curves.iter().enumerate();
        curves.map(|(k, curve)| (curve, COLOURS[curve.colour.unwrap_or(k) % COLOURS.len()]))
    }

    /// The names of the curves, if there are several.
    fn legend(&self, picture: &mut Picture, end: f64) {
        if self.curves.len() < 2 {
            return;
        }
        let longest = self.curves.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
        let left = end - 34.0 - 6.0 * longest as f64;
        for (k, (curve, colour)) in self.coloured().enumerate() {
            let y = TOP + 12.0 + 16.0 * k as f64;
            match curve.is_scattered {
                true => dot(picture, (left + 10.0, y), colour),
                false => line(picture, &[(left, y), (left + 20.0, y)], colour, 2),
            }
            text(picture, (left + 26.0, y), &curve.name, &FONT_6X10, Alignment::Left);
        }
    }
}

/// About six round numbers between two bounds.
fn ticks(from: f64, to: f64) -> Vec<f64> {
    let rough = (to - from) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|&s| s >= rough).unwrap_or(rough);
    let first = (from / step).ceil() as i64;
    (first..).map(|k| k as f64 * step).take_while(|&t| t <= to).take(20).collect()
}

fn label(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 {
        "0".into()
    } else if !(1e-3..1e5).contains(&size) {
        format!("{x:.1e}")
    } else {
        let text = format!("{x:.4}");
        text.trim_end_matches('0').trim_end_matches('.').into()
    }
}

fn point((x, y): (f64, f64)) -> Point {
    Point::new(x.round() as i32, y.round() as i32)
}

fn dot(picture: &mut Picture, at: (f64, f64), colour: Rgb888) {
    let Ok(()) =
        Circle::with_center(point(at), 5).into_styled(PrimitiveStyle::with_fill(colour)).draw(picture);
}

/// Draws the segments one by one: the joins of a `Polyline` overflow for some angles.
fn line(picture: &mut Picture, points: &[(f64, f64)], colour: Rgb888, width: u32) {
    let style = PrimitiveStyle::with_stroke(colour, width);
    for ends in points.windows(2) {
        let Ok(()) = Line::new(point(ends[0]), point(ends[1])).into_styled(style).draw(picture);
    }
}

fn text(picture: &mut Picture, at: (f64, f64), text: &str, font: &MonoFont<'_>, alignment: Alignment) {
    let style = TextStyleBuilder::new().baseline(Baseline::Middle).alignment(alignment).build();
    let Ok(_) = Text::with_text_style(text, point(at), MonoTextStyle::new(font, INK), style).draw(picture);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(curves: Vec<Curve>) -> Picture {
        Plot { title: "loss", axis: "step", curves, may_be_logarithmic: true }.draw()
    }

    fn count(picture: &Picture, colour: Rgb888) -> usize {
        picture.rgb.chunks(3).filter(|p| *p == [colour.r(), colour.g(), colour.b()]).count()
    }

    #[test]
    fn curves_and_points_are_drawn() {
        let points: Vec<(f64, f64)> = (0..100).map(|k| (k as f64, (-0.05 * k as f64).exp())).collect();
        let picture = draw(vec![
            Curve::line("fitted", points.clone()),
            Curve { is_scattered: true, ..Curve::line("data", points.into_iter().step_by(10).collect()) },
        ]);
        let found = [COLOURS[0], COLOURS[1]].map(|colour| count(&picture, colour));
        assert!(found[0] > 500 && found[1] > 150, "{found:?}");
    }

    #[test]
    fn odd_numbers_are_survived() {
        let inf = f64::INFINITY;
        for odd in [
            vec![],
            vec![(0.0, f64::NAN)],
            vec![(3.0, 1.0)],
            vec![(0.0, -1.0), (1.0, -1.0)],
            vec![(0.0, inf), (1.0, -1e300), (2.0, 1e300)],
            vec![(-1e300, 1.0), (1e300, 1.0)],
        ] {
            draw(vec![Curve::line("odd", odd.clone()), Curve { is_scattered: true, ..Curve::line("", odd) }]);
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 1000.0), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(label(0.25), "0.25");
    }
}
