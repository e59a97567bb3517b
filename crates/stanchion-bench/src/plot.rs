//! Curves as SVG: a logarithmic axis for how many, a linear one for the cost, in colours for light and dark pages.

use std::fmt::Write;

/// A drawing of some curves.
#[derive(Debug, Clone, Default)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// What there are so many of; the axis is logarithmic.
    pub across: String,
    /// What is measured, with its unit; the axis begins at zero.
    pub up: String,
    /// The curves, at most as many as there are colours: four.
    pub curves: Vec<Curve>,
}

/// One curve.
#[derive(Debug, Clone)]
pub struct Curve {
    /// What it is called.
    pub name: String,
    /// So many, and the cost.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 56.0;
/// The title, and above it nothing.
const TITLE: f64 = 44.0;
/// A line of the legend.
const LINE: f64 = 20.0;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-size:16px;font-weight:600}.grid{stroke:#d0d7de}\
polyline{fill:none;stroke:currentColor;stroke-width:2}circle{fill:currentColor}\
.c0{color:#0550ae}.c1{color:#bc4c00}.c2{color:#116329}.c3{color:#8250df}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#3d444d}\
.c0{color:#79c0ff}.c1{color:#ffa657}.c2{color:#7ee787}.c3{color:#d2a8ff}}";

impl Plot {
    /// The drawing, with a title for those who do not see it.
    ///
    /// # Panics
    ///
    /// If there is no point to draw, or a number that no axis has room for.
    pub fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let most = points().map(|point| point.0).fold(1.0, f64::max);
        let highest = points().map(|point| point.1).fold(0.0, f64::max);
        assert!(highest > 0.0 && most.is_finite() && highest.is_finite(), "nothing to draw");
        let decades = most.log10().max(1.0);
        let step = step(highest);
        let top = (highest / step).ceil() * step;
        let above = TITLE + LINE * self.curves.len() as f64;
        let x = |many: f64| LEFT + (WIDTH - LEFT - RIGHT) * many.log10() / decades;
        let y = |cost: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - above) * cost / top;

        let mut svg = String::new();
        let mut add = |text: std::fmt::Arguments<'_>| writeln!(svg, "{text}").expect("a string grows");
        add(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="title description">"#
        ));
        add(format_args!(r#"<title id="title">{}</title>"#, escaped(&self.title)));
        add(format_args!(r#"<desc id="description">{}</desc>"#, escaped(&self.description())));
        add(format_args!("<style>{STYLE}</style>"));
        add(format_args!(r#"<text class="title" x="{LEFT}" y="26">{}</text>"#, escaped(&self.title)));
        for many in (0..=decades.floor() as i32).map(|decade| 10f64.powi(decade)) {
            let (x, low) = (x(many), HEIGHT - BOTTOM);
            add(format_args!(r#"<line class="grid" x1="{x:.1}" y1="{above:.1}" x2="{x:.1}" y2="{low:.1}"/>"#));
            add(format_args!(
                r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                low + 18.0,
                thousands(many)
            ));
        }
        for tick in (0..=(top / step).round() as i32).map(|tick| f64::from(tick) * step) {
            let (y, right) = (y(tick), WIDTH - RIGHT);
            add(format_args!(r#"<line class="grid" x1="{LEFT}" y1="{y:.1}" x2="{right}" y2="{y:.1}"/>"#));
            add(format_args!(
                r#"<text x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
                LEFT - 8.0,
                y + 4.0,
                thousands(tick)
            ));
        }
        let (middle, low) = (LEFT.midpoint(WIDTH - RIGHT), HEIGHT - 14.0);
        add(format_args!(r#"<text x="{middle}" y="{low}" text-anchor="middle">{}</text>"#, escaped(&self.across)));
        let middle = above.midpoint(HEIGHT - BOTTOM);
        add(format_args!(
            r#"<text transform="translate(18 {middle:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
            escaped(&self.up)
        ));
        for (number, curve) in self.curves.iter().enumerate() {
            let line = TITLE + LINE * number as f64;
            add(format_args!(r#"<circle class="c{number}" cx="{}" cy="{line}" r="5"/>"#, LEFT + 5.0));
            add(format_args!(r#"<text x="{}" y="{}">{}</text>"#, LEFT + 18.0, line + 5.0, escaped(&curve.name)));
            let place = |point: &(f64, f64)| format!("{:.1},{:.1}", x(point.0), y(point.1));
            let places: Vec<_> = curve.points.iter().map(place).collect();
            add(format_args!(r#"<polyline class="c{number}" points="{}"/>"#, places.join(" ")));
            for (many, cost) in &curve.points {
                let (x, y) = (x(*many), y(*cost));
                add(format_args!(r#"<circle class="c{number}" cx="{x:.1}" cy="{y:.1}" r="3"/>"#));
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// The same in words.
    fn description(&self) -> String {
        let told = |curve: &Curve| {
            let points: Vec<_> =
                curve.points.iter().map(|(many, cost)| format!("{cost:.0} at {}", thousands(*many))).collect();
            format!("{}: {}.", curve.name, points.join(", "))
        };
        let curves: Vec<_> = self.curves.iter().map(told).collect();
        format!("{}, by {}. {}", self.up, self.across, curves.join(" "))
    }
}

/// How far apart the lines are: 1, 2 or 5 of a power of ten, for at most eight of them.
fn step(highest: f64) -> f64 {
    let power = 10f64.powf((highest / 8.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|step| highest / step <= 8.0)
        .expect("the last does")
}

fn thousands(number: f64) -> String {
    if number < 10.0 && number.fract() > 1e-9 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(svg: &str) -> Vec<(f64, f64)> {
        let line = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        line.split(' ')
            .map(|place| place.split_once(',').unwrap())
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect()
    }

    fn plot(points: &[(f64, f64)]) -> Plot {
        let curve = Curve { name: "a < b".into(), points: points.into() };
        Plot { title: "Owners & streams".into(), across: "owners".into(), up: "ns".into(), curves: vec![curve] }
    }

    #[test]
    fn a_decade_is_as_wide_as_another_and_the_cost_begins_at_zero() {
        let svg = plot(&[(1.0, 100.0), (10.0, 100.0), (100.0, 200.0), (1000.0, 400.0)]).svg();
        let places = places(&svg);
        let apart: Vec<_> = places.windows(2).map(|two| two[1].0 - two[0].0).collect();
        assert!(apart.iter().all(|width| (width - apart[0]).abs() < 0.2), "{apart:?}");
        let bottom = HEIGHT - BOTTOM;
        assert!((places[0].1 - places[1].1).abs() < 0.2);
        assert!(((bottom - places[3].1) / (bottom - places[2].1) - 2.0).abs() < 0.01, "{places:?}");
        assert_eq!((places[0].0, places[3].0), (LEFT, WIDTH - RIGHT));
    }

    #[test]
    fn it_tells_in_words_what_it_shows() {
        let svg = plot(&[(1.0, 1234.0), (20_000.0, 99.6)]).svg();
        assert!(svg.contains("<title id=\"title\">Owners &amp; streams</title>"), "{svg}");
        assert!(svg.contains("ns, by owners. a &lt; b: 1234 at 1, 100 at 20,000."), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn lines_are_few_and_round() {
        let steps = [7.0, 90.0, 1700.0, 41.0].map(|highest| step(highest).round() as u32);
        assert_eq!(steps, [1, 20, 500, 10]);
        assert_eq!([thousands(0.5), thousands(1_234_567.0), thousands(20.0)], ["0.5", "1,234,567", "20"]);
    }
}
