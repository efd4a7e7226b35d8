//! The section on what the pathways of a network contribute, in a run's page.

use std::fmt::Write;

use updraft_run::{Contributions, PlaceTerms, Term};

use super::plot::escape;
use crate::wrap::counted;

/// A number of a term, as text.
type Cell = fn(&Term) -> Option<String>;

/// A section of the page: a table of all images, and tables of classes.
pub(super) fn contributions(found: &Contributions) -> String {
    let places = found.places();
    let images = places.first().map_or(0, |place| place.images as u64);
    let mut body = format!(
        "<h2>Contributions of the pathways</h2>\n<p>Means of {}, by the model that is served. Each \
         integration adds the streams, multiplied by their weights, and a nonlinear mix of color \
         and brightness. The share of a term is its norm divided by the sum of the norms of all \
         terms. The entropy of the weights is 0 if one stream has all of the weight.</p>\n",
        counted(images, "test image")
    );
    body.push_str(&of_all(&places));
    body.push_str(&of_classes("Shares", found, &places, share));
    match found.weights_depend_on_the_class() {
        true => body.push_str(&of_classes("Weights", found, &places, weight)),
        false => body.push_str("<p>The weights are the same for every class.</p>\n"),
    }
    body
}

fn weight(term: &Term) -> Option<String> {
    term.weight.map(|weight| format!("{weight:.3}"))
}

fn share(term: &Term) -> Option<String> {
    Some(format!("{:.1} %", 100.0 * term.share))
}

/// One row for each term of each place.
fn of_all(places: &[PlaceTerms]) -> String {
    let mut table = "<div class=\"scroll\"><table>\n<tr><th>place</th><th>term</th>\
                     <th class=\"number\">weight</th><th class=\"number\">share</th>\
                     <th class=\"number\">entropy of the weights</th></tr>\n"
        .to_owned();
    for place in places {
        for (at, term) in place.overall.iter().enumerate() {
            let (name, entropy) = match at {
                0 => (escape(&place.place), format!("{:.2}", place.entropy)),
                _ => (String::new(), String::new()),
            };
            let cells = [weight(term), share(term)].map(|cell| cell.unwrap_or("–".to_owned()));
            let _ = writeln!(
                table,
                "<tr><td>{name}</td><td>{}</td><td class=\"number\">{}</td>\
                 <td class=\"number\">{}</td><td class=\"number\">{entropy}</td></tr>",
                escape(term.name),
                cells[0],
                cells[1],
            );
        }
    }
    table.push_str("</table></div>\n");
    table
}

/// One row for each class, with a column for each term of each place that has the number.
fn of_classes(title: &str, found: &Contributions, places: &[PlaceTerms], cell: Cell) -> String {
    let mut heads = [String::new(), String::new()];
    for place in places {
        let terms: Vec<&Term> = place.overall.iter().filter(|term| cell(term).is_some()).collect();
        let _ = write!(heads[0], "<th colspan=\"{}\">{}</th>", terms.len(), escape(&place.place));
        for term in terms {
            let _ = write!(heads[1], "<th class=\"number\">{}</th>", escape(term.name));
        }
    }
    let [of_places, of_terms] = heads;
    let mut table = format!(
        "<p>{title} by class</p>\n<div class=\"scroll\"><table>\n<tr><th></th>{of_places}</tr>\n\
         <tr><th>class</th>{of_terms}</tr>\n"
    );
    for (at, class) in found.classes().iter().enumerate() {
        let _ = write!(table, "<tr><td class=\"name\">{}</td>", escape(class));
        for place in places {
            let own = place.classes.get(at).and_then(Option::as_ref);
            for (index, all) in place.overall.iter().enumerate() {
                if cell(all).is_some() {
                    let text = own.and_then(|terms| cell(terms.get(index)?));
                    let text = text.unwrap_or("–".to_owned());
                    let _ = write!(table, "<td class=\"number\">{text}</td>");
                }
            }
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</table></div>\n");
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contribution_table::tests::planted;

    #[test]
    fn the_section_has_every_place_and_class_and_escapes_names() {
        let text = contributions(&planted(["a<b>", "empty"], 0.25));
        for expected in [
            "Means of 40 test images",
            "<tr><td>stage 0</td><td>color</td><td class=\"number\">0.500</td>\
             <td class=\"number\">25.0 %</td><td class=\"number\">0.69</td></tr>",
            "<tr><td></td><td>mix</td><td class=\"number\">–</td>\
             <td class=\"number\">50.0 %</td><td class=\"number\"></td></tr>",
            // Color, brightness and mix; the stream too where one arrives.
            "<th colspan=\"3\">stage 0</th><th colspan=\"4\">pooled</th>",
            "<td class=\"name\">a&lt;b&gt;</td><td class=\"number\">25.0 %</td>",
            // The weights of the class are others; the mix has none.
            "<th colspan=\"2\">stage 0</th><th colspan=\"3\">pooled</th>",
            "<td class=\"name\">a&lt;b&gt;</td><td class=\"number\">0.250</td>\
             <td class=\"number\">0.750</td>",
            "<td class=\"name\">empty</td><td class=\"number\">–</td>",
        ] {
            assert!(text.contains(expected), "`{expected}` is missing: {text}");
        }
        assert!(!text.contains("<b>") && !text.contains("the same for every class"));
    }

    #[test]
    fn weights_of_static_gates_are_not_repeated_for_each_class() {
        let text = contributions(&planted(["a", "b"], 0.5));
        assert!(text.contains("<p>Shares by class</p>") && !text.contains("Weights by class"));
        assert!(text.contains("The weights are the same for every class."));
    }
}
