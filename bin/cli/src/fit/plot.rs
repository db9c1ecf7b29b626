//! Plots a loss over steps.

use embedded_graphics::mono_font::ascii::{FONT_6X10, FONT_10X20};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Line, PrimitiveStyle};
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
const LINE: Rgb888 = Rgb888::new(32, 98, 184);
const SECOND: Rgb888 = Rgb888::new(208, 102, 24);

/// Plots points `(step, loss)`, and those of the items that are kept apart; the loss axis is logarithmic if all losses
/// are positive.
pub(crate) fn loss_plot(title: &str, fitted: &[(f64, f64)], apart: &[(f64, f64)]) -> Picture {
    let mut picture = Picture::new(WIDTH, HEIGHT, [255; 3]);
    let is_shown = |p: &(f64, f64)| p.1.is_finite();
    let curves = [(fitted, LINE), (apart, SECOND)];
    let points: Vec<(f64, f64)> = fitted.iter().chain(apart).copied().filter(is_shown).collect();
    text(&mut picture, (LEFT, 22.0), title, &FONT_10X20, Alignment::Left);
    if points.is_empty() {
        text(&mut picture, (LEFT, HEIGHT as f64 / 2.0), "no finite loss", &FONT_10X20, Alignment::Left);
        return picture;
    }
    let logarithmic = points.iter().all(|p| p.1 > 0.0);
    let height_of = |loss: f64| if logarithmic { loss.log10() } else { loss };
    let (mut x0, mut x1) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut y0, mut y1) = (f64::INFINITY, f64::NEG_INFINITY);
    for &(step, loss) in &points {
        (x0, x1) = (x0.min(step), x1.max(step));
        (y0, y1) = (y0.min(height_of(loss)), y1.max(height_of(loss)));
    }
    if x1 - x0 < 1.0 {
        x1 = x0 + 1.0;
    }
    let margin = ((y1 - y0) * 0.05).max(1e-6 + y0.abs() * 1e-6);
    (y0, y1) = (y0 - margin, y1 + margin);
    let to_x = |step: f64| LEFT + (step - x0) / (x1 - x0) * (WIDTH as f64 - LEFT - RIGHT);
    let to_y = |y: f64| HEIGHT as f64 - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT as f64 - TOP - BOTTOM);
    let (end_x, end_y) = (WIDTH as f64 - RIGHT, HEIGHT as f64 - BOTTOM);
    for tick in ticks(x0, x1) {
        let x = to_x(tick);
        line(&mut picture, &[(x, TOP), (x, end_y)], GRID, 1);
        text(&mut picture, (x, end_y + 14.0), &label(tick), &FONT_6X10, Alignment::Center);
    }
    for tick in ticks(y0, y1) {
        let y = to_y(tick);
        line(&mut picture, &[(LEFT, y), (end_x, y)], GRID, 1);
        let label = label(if logarithmic { 10f64.powf(tick) } else { tick });
        text(&mut picture, (LEFT - 8.0, y), &label, &FONT_6X10, Alignment::Right);
    }
    line(&mut picture, &[(LEFT, TOP), (LEFT, end_y), (end_x, end_y)], INK, 1);
    for (points, colour) in curves {
        let shown = points.iter().copied().filter(is_shown);
        let mut curve: Vec<(f64, f64)> = shown.map(|p| (to_x(p.0), to_y(height_of(p.1)))).collect();
        if let [(x, y)] = curve[..] {
            curve.push((x + 2.0, y));
        }
        line(&mut picture, &curve, colour, 2);
    }
    if !apart.is_empty() {
        for (k, (name, colour)) in [("fitted", LINE), ("validation", SECOND)].into_iter().enumerate() {
            let y = TOP + 12.0 + 16.0 * k as f64;
            line(&mut picture, &[(end_x - 110.0, y), (end_x - 90.0, y)], colour, 2);
            text(&mut picture, (end_x - 84.0, y), name, &FONT_6X10, Alignment::Left);
        }
    }
    text(&mut picture, ((LEFT + end_x) / 2.0, end_y + 36.0), "step", &FONT_6X10, Alignment::Center);
    picture
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

/// Draws the segments one by one: the joins of a `Polyline` overflow for some angles.
fn line(picture: &mut Picture, points: &[(f64, f64)], colour: Rgb888, width: u32) {
    let at = |p: (f64, f64)| Point::new(p.0.round() as i32, p.1.round() as i32);
    let style = PrimitiveStyle::with_stroke(colour, width);
    for ends in points.windows(2) {
        let Ok(()) = Line::new(at(ends[0]), at(ends[1])).into_styled(style).draw(picture);
    }
}

fn text(picture: &mut Picture, (x, y): (f64, f64), text: &str, font: &MonoFont<'_>, alignment: Alignment) {
    let at = Point::new(x.round() as i32, y.round() as i32);
    let style = TextStyleBuilder::new().baseline(Baseline::Middle).alignment(alignment).build();
    let Ok(_) = Text::with_text_style(text, at, MonoTextStyle::new(font, INK), style).draw(picture);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_a_curve_and_survives_odd_input() {
        let points: Vec<(f64, f64)> = (0..100).map(|k| (k as f64, (-0.05 * k as f64).exp())).collect();
        let picture = loss_plot("loss", &points, &points[..3]);
        let blue = picture.rgb.chunks(3).filter(|p| *p == [LINE.r(), LINE.g(), LINE.b()]).count();
        assert!(blue > 500, "{blue} blue pixels");
        for odd in [vec![], vec![(0.0, f64::NAN)], vec![(3.0, 1.0)], vec![(0.0, -1.0), (1.0, -1.0)]] {
            loss_plot("odd", &odd, &odd);
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 1000.0), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(label(0.25), "0.25");
    }
}
