//! Plots a loss over steps, without using a font or plotting library.

use super::picture::Picture;

const WIDTH: usize = 900;
const HEIGHT: usize = 520;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 56.0;
const INK: [u8; 3] = [60, 60, 67];
const GRID: [u8; 3] = [224, 226, 230];
const LINE: [u8; 3] = [32, 98, 184];

/// Plots points `(step, loss)`; the loss axis is logarithmic if all losses are positive.
pub(crate) fn loss_plot(title: &str, points: &[(f64, f64)]) -> Picture {
    let mut picture = Picture::new(WIDTH, HEIGHT, [255; 3]);
    let points: Vec<(f64, f64)> = points.iter().copied().filter(|p| p.1.is_finite()).collect();
    text(&mut picture, LEFT, 14.0, title, 2);
    if points.is_empty() {
        text(&mut picture, LEFT, HEIGHT as f64 / 2.0, "no finite loss", 2);
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
        line(&mut picture, (x, TOP), (x, end_y), GRID, 1.0);
        let label = label(tick);
        text(&mut picture, x - label.len() as f64 * 3.0, end_y + 10.0, &label, 1);
    }
    for tick in ticks(y0, y1) {
        let y = to_y(tick);
        line(&mut picture, (LEFT, y), (end_x, y), GRID, 1.0);
        let label = label(if logarithmic { 10f64.powf(tick) } else { tick });
        text(&mut picture, LEFT - 8.0 - label.len() as f64 * 6.0, y - 3.0, &label, 1);
    }
    line(&mut picture, (LEFT, TOP), (LEFT, end_y), INK, 1.0);
    line(&mut picture, (LEFT, end_y), (end_x, end_y), INK, 1.0);
    for pair in points.windows(2) {
        let at = |p: (f64, f64)| (to_x(p.0), to_y(height_of(p.1)));
        line(&mut picture, at(pair[0]), at(pair[1]), LINE, 2.0);
    }
    if let [only] = points[..] {
        line(
            &mut picture,
            (to_x(only.0), to_y(height_of(only.1))),
            (to_x(only.0) + 2.0, to_y(height_of(only.1))),
            LINE,
            4.0,
        );
    }
    text(&mut picture, (LEFT + end_x) / 2.0 - 12.0, end_y + 32.0, "step", 1);
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

/// Draws a line with soft edges.
fn line(picture: &mut Picture, a: (f64, f64), b: (f64, f64), colour: [u8; 3], width: f64) {
    let reach = width / 2.0 + 1.0;
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = (dx * dx + dy * dy).max(1e-12);
    let range = |p: f64, q: f64| ((p.min(q) - reach).floor() as i64, (p.max(q) + reach).ceil() as i64);
    let ((x0, x1), (y0, y1)) = (range(a.0, b.0), range(a.1, b.1));
    for y in y0..=y1 {
        for x in x0..=x1 {
            let (px, py) = (x as f64 + 0.5 - a.0, y as f64 + 0.5 - a.1);
            let t = ((px * dx + py * dy) / length).clamp(0.0, 1.0);
            let distance = ((px - t * dx).powi(2) + (py - t * dy).powi(2)).sqrt();
            picture.blend(x, y, colour, width / 2.0 + 0.5 - distance);
        }
    }
}

/// Draws text with the built-in 5×7 font.
fn text(picture: &mut Picture, x: f64, y: f64, text: &str, scale: i64) {
    let mut x = x.round() as i64;
    for c in text.chars() {
        for (column, bits) in glyph(c).into_iter().enumerate() {
            for row in 0..7 {
                if bits >> row & 1 == 1 {
                    for (sx, sy) in (0..scale).flat_map(|sx| (0..scale).map(move |sy| (sx, sy))) {
                        let (px, py) = (column as i64 * scale + sx, row as i64 * scale + sy);
                        picture.blend(x + px, y.round() as i64 + py, INK, 1.0);
                    }
                }
            }
        }
        x += 6 * scale;
    }
}

/// The five columns of a glyph, with the lowest bit at the top. Upper case is drawn as lower case.
fn glyph(c: char) -> [u8; 5] {
    match c.to_ascii_lowercase() {
        '0' => [0x3E, 0x51, 0x49, 0x45, 0x3E],
        '1' => [0x00, 0x42, 0x7F, 0x40, 0x00],
        '2' => [0x42, 0x61, 0x51, 0x49, 0x46],
        '3' => [0x21, 0x41, 0x45, 0x4B, 0x31],
        '4' => [0x18, 0x14, 0x12, 0x7F, 0x10],
        '5' => [0x27, 0x45, 0x45, 0x45, 0x39],
        '6' => [0x3C, 0x4A, 0x49, 0x49, 0x30],
        '7' => [0x01, 0x71, 0x09, 0x05, 0x03],
        '8' => [0x36, 0x49, 0x49, 0x49, 0x36],
        '9' => [0x06, 0x49, 0x49, 0x29, 0x1E],
        'a' => [0x20, 0x54, 0x54, 0x54, 0x78],
        'b' => [0x7F, 0x48, 0x44, 0x44, 0x38],
        'c' => [0x38, 0x44, 0x44, 0x44, 0x20],
        'd' => [0x38, 0x44, 0x44, 0x48, 0x7F],
        'e' => [0x38, 0x54, 0x54, 0x54, 0x18],
        'f' => [0x08, 0x7E, 0x09, 0x01, 0x02],
        'g' => [0x0C, 0x52, 0x52, 0x52, 0x3E],
        'h' => [0x7F, 0x08, 0x04, 0x04, 0x78],
        'i' => [0x00, 0x44, 0x7D, 0x40, 0x00],
        'j' => [0x20, 0x40, 0x44, 0x3D, 0x00],
        'k' => [0x7F, 0x10, 0x28, 0x44, 0x00],
        'l' => [0x00, 0x41, 0x7F, 0x40, 0x00],
        'm' => [0x7C, 0x04, 0x18, 0x04, 0x78],
        'n' => [0x7C, 0x08, 0x04, 0x04, 0x78],
        'o' => [0x38, 0x44, 0x44, 0x44, 0x38],
        'p' => [0x7C, 0x14, 0x14, 0x14, 0x08],
        'q' => [0x08, 0x14, 0x14, 0x18, 0x7C],
        'r' => [0x7C, 0x08, 0x04, 0x04, 0x08],
        's' => [0x48, 0x54, 0x54, 0x54, 0x20],
        't' => [0x04, 0x3F, 0x44, 0x40, 0x20],
        'u' => [0x3C, 0x40, 0x40, 0x20, 0x7C],
        'v' => [0x1C, 0x20, 0x40, 0x20, 0x1C],
        'w' => [0x3C, 0x40, 0x30, 0x40, 0x3C],
        'x' => [0x44, 0x28, 0x10, 0x28, 0x44],
        'y' => [0x0C, 0x50, 0x50, 0x50, 0x3C],
        'z' => [0x44, 0x64, 0x54, 0x4C, 0x44],
        '.' => [0x00, 0x60, 0x60, 0x00, 0x00],
        ',' => [0x00, 0x50, 0x30, 0x00, 0x00],
        ':' => [0x00, 0x36, 0x36, 0x00, 0x00],
        '-' => [0x08, 0x08, 0x08, 0x08, 0x08],
        '+' => [0x08, 0x08, 0x3E, 0x08, 0x08],
        '=' => [0x14, 0x14, 0x14, 0x14, 0x14],
        '/' => [0x20, 0x10, 0x08, 0x04, 0x02],
        '(' => [0x00, 0x1C, 0x22, 0x41, 0x00],
        ')' => [0x00, 0x41, 0x22, 0x1C, 0x00],
        '_' => [0x40, 0x40, 0x40, 0x40, 0x40],
        _ => [0; 5],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_a_curve_and_survives_odd_input() {
        let points: Vec<(f64, f64)> = (0..100).map(|k| (k as f64, (-0.05 * k as f64).exp())).collect();
        let picture = loss_plot("loss", &points);
        let blue = picture.rgb.chunks(3).filter(|p| *p == LINE).count();
        assert!(blue > 500, "{blue} blue pixels");
        for odd in [vec![], vec![(0.0, f64::NAN)], vec![(3.0, 1.0)], vec![(0.0, -1.0), (1.0, -1.0)]] {
            loss_plot("odd", &odd);
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 1000.0), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(label(0.25), "0.25");
    }
}
