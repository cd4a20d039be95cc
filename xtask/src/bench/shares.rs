//! What HTTP and TCP reach of the virtual network card's limit, which is the
//! reflector's rate: a request and its answer are two frames at least, as a
//! reflected frame is.

use super::record::Record;

/// The reflector's datagrams that are nearest to a request.
const DATAGRAM: &str = "100 bytes";

/// A record in percent of the reflector's, for each that has one: requests per
/// second, and the round trip of one byte.
pub fn of_the_reflector(records: &[Record]) -> Vec<Record> {
    let limit = |wire: &str, in_flight: &str, metric: &str| {
        let case = format!("{wire}, {DATAGRAM}, {in_flight} in flight");
        records.iter().find(|record| {
            record.bench == "reflector" && record.case == case && record.metric == metric
        })
    };
    let share = |record: &Record| -> Option<Record> {
        let (wire, load) = record.case.split_once(", ")?;
        match (record.bench.as_str(), record.metric.as_str()) {
            ("httpd", "requests") => {
                let (connections, _) = load.split_once(' ')?;
                let limit = limit(wire, connections, "frames")?;
                Some(percent(record, record.median / limit.median, SHARE))
            }
            ("netbench", "round trip p50") => {
                let limit = limit(wire, "1", "round trip p50")?;
                Some(percent(record, limit.median / record.median, SPEED))
            }
            _ => None,
        }
    };
    records.iter().filter_map(share).collect()
}

const SHARE: &str = "share of the reflector's rate";
const SPEED: &str = "speed of a round trip, the reflector's is 100";

/// A ratio of medians.
fn percent(record: &Record, ratio: f64, metric: &str) -> Record {
    let value = 100.0 * ratio;
    Record {
        metric: metric.to_owned(),
        unit: "%".to_owned(),
        median: value,
        min: value,
        max: value,
        ..record.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(bench: &str, case: &str, metric: &str, median: f64) -> Record {
        Record::example(bench, "firstpoll", case, metric, median)
    }

    #[test]
    fn figures_are_compared_with_the_same_wire_and_load() {
        let records = [
            record(
                "reflector",
                "tap, 100 bytes, 1 in flight",
                "frames",
                20_000.0,
            ),
            record(
                "reflector",
                "tap, 100 bytes, 1 in flight",
                "round trip p50",
                40.0,
            ),
            record(
                "reflector",
                "tap, 100 bytes, 16 in flight",
                "frames",
                90_000.0,
            ),
            record("reflector", "tap, 1400 bytes, 16 in flight", "frames", 9.0),
            record("httpd", "tap, 1 connection", "requests", 10_000.0),
            record("httpd", "tap, 16 connections", "requests", 30_000.0),
            record("httpd", "user, 16 connections", "requests", 30_000.0),
            record("netbench", "tap, 1 byte", "round trip p50", 80.0),
        ];
        let shares = of_the_reflector(&records);
        let shares: Vec<_> = shares
            .iter()
            .map(|share| (share.case.as_str(), share.median.round()))
            .collect();
        let wanted = [
            ("tap, 1 connection", 50.0),
            ("tap, 16 connections", 33.0),
            ("tap, 1 byte", 50.0),
        ];
        assert_eq!(shares, wanted);
    }
}
