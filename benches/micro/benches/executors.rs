//! All cases on all systems, by time.

use criterion::{Criterion, SamplingMode, criterion_group, criterion_main};
use firstpoll_micro_bench::entries;

fn executors(criterion: &mut Criterion) {
    let entries = entries();
    for of_case in entries.chunk_by(|one, other| one.case == other.case) {
        let mut group = criterion.benchmark_group(of_case[0].case);
        if of_case[0].case.contains("100000") {
            group.sampling_mode(SamplingMode::Flat);
        }
        for entry in of_case {
            // Prepared only if it is not filtered out.
            group.bench_function(entry.system, |bencher| {
                let mut run = (entry.prepare)();
                bencher.iter_custom(&mut run);
            });
        }
        group.finish();
    }
}

criterion_group!(benches, executors);
criterion_main!(benches);
