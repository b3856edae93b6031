//! Many small requests to a medium at a time.

/// Parts from which on several are under way at a time.
const MANY: usize = 64;
/// Requests under way, at most.
const ABREAST: usize = 8;

/// Does `work` with each part. Results are in the order of the parts; many parts are done on
/// several threads, in any order.
pub(super) fn abreast<T: Sync, R: Send>(parts: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let all = &|parts: &[T]| parts.iter().map(&work).collect::<Vec<R>>();
    if parts.len() < MANY {
        return all(parts);
    }
    std::thread::scope(|scope| {
        let begin = |part| {
            let started = std::thread::Builder::new().spawn_scoped(scope, move || all(part));
            // Without a thread it is done here.
            started.map_err(|_| all(part))
        };
        let under_way: Vec<_> = parts.chunks(parts.len().div_ceil(ABREAST)).map(begin).collect();
        let ended = |part: Result<std::thread::ScopedJoinHandle<'_, Vec<R>>, Vec<R>>| match part {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(done) => done,
        };
        under_way.into_iter().flat_map(ended).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_parts() {
        for count in [0, 1, MANY - 1, MANY, 1000] {
            let parts: Vec<usize> = (0..count).collect();
            assert_eq!(
                abreast(&parts, |part| part * 2),
                parts.iter().map(|part| part * 2).collect::<Vec<_>>()
            );
        }
    }
}
