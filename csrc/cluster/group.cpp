#include "cluster/group.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace fb::cluster {
namespace {

constexpr size_t text_size = 480;
constexpr size_t small = 16 << 10;   // bytes that every rank reduces by itself, which saves an exchange
constexpr size_t block = 16 << 10;   // bytes that stay in the first-level cache between two steps of a reduction
constexpr int64_t nap = 20'000'000;  // nanoseconds between two looks at whether the others are still there
constexpr int64_t short_wait = 50'000, long_turn = 1'000'000;  // nanoseconds, see Note [Waiting for a rank]

int64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

void futex_wait(const std::atomic<uint32_t>& word, uint32_t seen) {
    timespec limit{0, nap};
    syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void futex_wake(const std::atomic<uint32_t>& word) {
    syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool reached(const std::atomic<uint32_t>& word, uint32_t target) {
    return static_cast<int32_t>(word.load(std::memory_order_acquire) - target) >= 0;
}

// An empty tensor may have a null address, which memcpy must not get even for zero bytes.
void copy_bytes(void* to, const void* from, size_t bytes) {
    if (bytes) std::memcpy(to, from, bytes);
}

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

// Piece i of `count` elements split for `size` ranks, at cache lines.
struct Pieces {
    size_t count, step;
    Pieces(size_t count, int size, size_t item)
        : count(count), step(round_up((count + size - 1) / size, std::max<size_t>(64 / item, 1))) {}
    size_t begin(int i) const { return std::min(count, step * static_cast<size_t>(i)); }
    size_t length(int i) const { return begin(i + 1) - begin(i); }
};

// Tensors that are worked on as if one lay behind the other.
class Chain {
  public:
    explicit Chain(const std::vector<Span>& spans) : spans_(spans) {
        for (auto& span : spans) ends_.push_back(bytes_ += span.bytes);
    }
    size_t bytes() const { return bytes_; }
    // Calls f(data, at, length) for each stretch of memory in a range of bytes; `at` counts from the begin of the
    // chain.
    template <class F>
    void each(size_t from, size_t bytes, F f) const {
        auto i = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), from) - ends_.begin());
        for (; bytes; i++) {
            size_t length = std::min(bytes, ends_[i] - from);
            if (length) f(spans_[i].data + (spans_[i].bytes - (ends_[i] - from)), from, length);
            from += length, bytes -= length;
        }
    }

  private:
    const std::vector<Span>& spans_;
    std::vector<size_t> ends_;
    size_t bytes_ = 0;
};

}  // namespace

struct alignas(128) Group::Seat {
    std::atomic<uint32_t> posted;
    std::atomic<uint32_t> waiting;
    alignas(64) std::atomic<uint32_t> done;
    struct Text {
        uint64_t epoch_and_length;
        char text[text_size];
    } texts[2];
};

size_t Group::bytes(int size, size_t slot) {
    return round_up(sizeof(Seat) * static_cast<size_t>(size), 4096) + 2 * slot * static_cast<size_t>(size);
}

Group::Group(char* memory, int rank, std::vector<int> ranks, size_t slot)
    : memory_(memory),
      rank_(rank),
      size_(static_cast<int>(ranks.size())),
      ranks_(std::move(ranks)),
      slot_(slot),
      peers_(peers()) {
    cpu_set_t set;
    cores_ = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    patience_ = spins_ = size_ <= cores_ ? 2000 : 0;
}

Group::Seat& Group::seat(int rank) const { return reinterpret_cast<Seat*>(memory_)[rank]; }

char* Group::slot(int rank) const {
    return memory_ + round_up(sizeof(Seat) * static_cast<size_t>(size_), 4096) +
           (2 * static_cast<size_t>(rank) + epoch_ % 2) * slot_;
}

// ---- waiting --------------------------------------------------------------------------------------------------------

void Group::begin_epoch() {
    for (int r = 0; r < size_; r++)
        if (r != rank_) await(r, seat(r).done, epoch_ - 1);
    if (first_) {
        auto& mine = seat(rank_).texts[epoch_ % 2];
        size_t length = std::min(request_->text.size(), text_size);
        mine.epoch_and_length = length;
        std::memcpy(mine.text, request_->text.data(), length);
    }
}

void Group::post(int phase) {
    Seat& mine = seat(rank_);
    mine.posted.store(2 * epoch_ + static_cast<uint32_t>(phase));
    if (mine.waiting.load()) futex_wake(mine.posted);
}

void Group::await_post(int rank, int phase) {
    await(rank, seat(rank).posted, 2 * epoch_ + static_cast<uint32_t>(phase));
}

void Group::await_all(int phase) {
    for (int step = 1; step < size_; step++) await_post((rank_ + step) % size_, phase);
    if (first_) check_calls();
}

void Group::end_epoch() {
    Seat& mine = seat(rank_);
    mine.done.store(++epoch_);
    if (mine.waiting.load()) futex_wake(mine.done);
}

// Note [Waiting for a rank]: where each rank has a core, the other one mostly answers within microseconds, sooner than
// a sleep would begin. Where it has none at the moment, because another program has taken it, looking on only delays
// things: whoever sleeps is preferred later, and leaves its core to those it waits for. So a wait first looks on for as
// long as that has helped lately. Ranks that share cores hand them to each other, unless others would take them for
// long.
void Group::await(int rank, const std::atomic<uint32_t>& word, uint32_t target) {
    if (reached(word, target)) return;
    for (int i = 0; i < patience_; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (reached(word, target)) return;
    }
    patience_ /= 2;
    int64_t begin = now();
    if (size_ > cores_ && --detour_ < 0) {
        for (int i = 0; i < 4; i++) {
            sched_yield();
            if (reached(word, target)) return;
        }
        if (now() - begin > long_turn) detour_ = 256;
    }
    Seat& theirs = seat(rank);
    for (;;) {
        theirs.waiting.fetch_add(1);
        uint32_t seen = word.load();
        bool there = static_cast<int32_t>(seen - target) >= 0;
        if (!there) futex_wait(word, seen);
        theirs.waiting.fetch_sub(1);
        if (there || reached(word, target)) {
            if (now() - begin < short_wait) patience_ = spins_;
            return;
        }
        Outcome outcome = Outcome::Done;
        int who = rank;
        if (peers_ && peers_->lost.load() >= 0) outcome = Outcome::Lost, who = peers_->lost.load();
        else if (peers_ && peers_->states[static_cast<size_t>(ranks_[static_cast<size_t>(rank)])].load() != Peer::Here)
            outcome = Outcome::Left, who = ranks_[static_cast<size_t>(rank)];
        else if (now() > end_) outcome = Outcome::Late;
        else if (request_->interrupted && request_->interrupted()) outcome = Outcome::Interrupted;
        // If it left after this call, its data is complete.
        if (outcome != Outcome::Done && !reached(word, target)) throw Failure{{outcome, who, {}}};
        if (outcome != Outcome::Done) return;
    }
}

void Group::check_calls() {
    auto& mine = seat(rank_).texts[epoch_ % 2];
    for (int r = 0; r < size_; r++) {
        auto& theirs = seat(r).texts[epoch_ % 2];
        if (theirs.epoch_and_length != mine.epoch_and_length ||
            std::memcmp(theirs.text, mine.text, mine.epoch_and_length) != 0)
            throw Failure{
                {Outcome::Mismatch, r, std::string(theirs.text, std::min(theirs.epoch_and_length, text_size))}};
    }
    first_ = false;
}

// ---- calls ----------------------------------------------------------------------------------------------------------

Answer Group::run(const Request& request) {
    request_ = &request;
    first_ = true;
    end_ = now() + static_cast<int64_t>(std::min(request.seconds, 1e9) * 1e9);
    try {
        switch (request.call) {
            case Call::AllReduce:
                all_reduce(true);
                break;
            case Call::Reduce:
                all_reduce(false);
                break;
            case Call::Broadcast:
                broadcast();
                break;
            case Call::AllGather:
                all_gather();
                break;
            case Call::ReduceScatter:
                reduce_scatter();
                break;
            case Call::Gather:
                gather();
                break;
            case Call::Scatter:
                scatter();
                break;
            case Call::AllToAll:
                all_to_all();
                break;
            case Call::Barrier:
                begin_epoch();
                post(1);
                await_all(1);
                end_epoch();
                break;
        }
    } catch (Failure& failure) {
        return failure.answer;
    }
    return {};
}

void Group::all_reduce_small(bool everywhere) {
    const Request& q = *request_;
    Chain x(q.out);
    size_t item = static_cast<size_t>(itemsize(q.dtype));
    begin_epoch();
    x.each(0, x.bytes(), [&](char* data, size_t at, size_t n) { std::memcpy(slot(rank_) + at, data, n); });
    post(1);
    await_all(1);
    if (everywhere || rank_ == q.root)
        x.each(0, x.bytes(), [&](char* data, size_t at, size_t n) {
            size_t count = n / item;
            join(q.dtype, q.op, data, slot(0) + at, slot(1) + at, count);
            for (int r = 2; r < size_; r++) join(q.dtype, q.op, data, data, slot(r) + at, count);
            if (q.op == Join::Average) divide(q.dtype, data, count, size_);
        });
    end_epoch();
}

void Group::all_reduce(bool everywhere) {
    const Request& q = *request_;
    Chain x(q.out);
    if (x.bytes() <= std::min(small, slot_)) return all_reduce_small(everywhere);
    size_t item = static_cast<size_t>(itemsize(q.dtype));
    bool keeps = everywhere || rank_ == q.root;
    size_t total = x.bytes() / item, per_chunk = slot_ / item;
    // Chunks of nearly equal size, so that no short one is left at the end.
    size_t chunks = (total + per_chunk - 1) / per_chunk;
    per_chunk = std::min(per_chunk, round_up((total + chunks - 1) / chunks, 64));
    for (size_t start = 0; start < total; start += per_chunk) {
        size_t count = std::min(per_chunk, total - start), first = start * item;
        Pieces pieces(count, size_, item);
        auto each = [&](int r, auto f) { x.each(first + pieces.begin(r) * item, pieces.length(r) * item, f); };
        begin_epoch();
        for (int r = 0; r < size_; r++)
            if (r != rank_)
                each(r, [&](char* data, size_t at, size_t n) { std::memcpy(slot(rank_) + (at - first), data, n); });
        post(1);
        await_all(1);
        each(rank_, [&](char* data, size_t at, size_t length) {
            for (size_t done = 0; done < length; done += block) {
                size_t place = at - first + done, n = std::min(block, length - done);
                auto source = [&](int r) { return r == rank_ ? data + done : slot(r) + place; };
                char* out = slot(rank_) + place;
                join(q.dtype, q.op, out, source(0), source(1), n / item);
                for (int r = 2; r < size_; r++) join(q.dtype, q.op, out, out, source(r), n / item);
                if (q.op == Join::Average) divide(q.dtype, out, n / item, size_);
                if (keeps) std::memcpy(data + done, out, n);
            }
        });
        post(2);
        if (keeps)
            for (int turn = 1; turn < size_; turn++) {
                int r = (rank_ + turn) % size_;
                await_post(r, 2);
                each(r, [&](char* data, size_t at, size_t n) { std::memcpy(data, slot(r) + (at - first), n); });
            }
        end_epoch();
    }
}

void Group::broadcast() {
    const Request& q = *request_;
    Span x = q.out[0];
    size_t start = 0;
    do {  // one epoch even without data: the calls are compared in it
        size_t bytes = std::min(slot_, x.bytes - start);
        begin_epoch();
        if (rank_ == q.root) copy_bytes(slot(rank_), x.data + start, bytes);
        post(1);
        if (first_) await_all(1);
        if (rank_ != q.root) {
            await_post(q.root, 1);
            copy_bytes(x.data + start, slot(q.root), bytes);
        }
        end_epoch();
        start += bytes;
    } while (start < x.bytes);
}

void Group::all_gather() {
    const Request& q = *request_;
    size_t longest = 0;
    for (auto& out : q.out) longest = std::max(longest, out.bytes);
    size_t start = 0;
    auto length = [&](int r) {
        return std::min(slot_,
                        q.out[static_cast<size_t>(r)].bytes - std::min(start, q.out[static_cast<size_t>(r)].bytes));
    };
    do {
        begin_epoch();
        copy_bytes(slot(rank_), q.in[0].data + start, length(rank_));
        post(1);
        if (first_) await_all(1);
        if (size_t n = length(rank_); n && q.out[static_cast<size_t>(rank_)].data != q.in[0].data)
            std::memmove(q.out[static_cast<size_t>(rank_)].data + start, q.in[0].data + start, n);
        for (int turn = 1; turn < size_; turn++) {
            int r = (rank_ + turn) % size_;
            await_post(r, 1);
            copy_bytes(q.out[static_cast<size_t>(r)].data + start, slot(r), length(r));
        }
        end_epoch();
        start += slot_;
    } while (start < longest);
}

void Group::reduce_scatter() {
    const Request& q = *request_;
    size_t item = static_cast<size_t>(itemsize(q.dtype)), longest = 0;
    for (auto& in : q.in) longest = std::max(longest, in.bytes);
    size_t part = slot_ / static_cast<size_t>(size_) / 64 * 64, start = 0;
    auto length = [&](int r) {
        return std::min(part, q.in[static_cast<size_t>(r)].bytes - std::min(start, q.in[static_cast<size_t>(r)].bytes));
    };
    do {
        begin_epoch();
        for (int r = 0; r < size_; r++)
            if (size_t n = length(r); n && r != rank_)
                copy_bytes(slot(rank_) + static_cast<size_t>(r) * part, q.in[static_cast<size_t>(r)].data + start, n);
        post(1);
        await_all(1);
        size_t bytes = length(rank_);
        // The result may overlap this rank's part, and others' parts may come first.
        char* mine = q.in[static_cast<size_t>(rank_)].data + start;
        if (rank_ >= 2 && q.out[0].data < mine + bytes && mine < q.out[0].data + q.out[0].bytes)
            mine = static_cast<char*>(std::memcpy(slot(rank_) + static_cast<size_t>(rank_) * part, mine, bytes));
        for (size_t at = 0; at < bytes; at += block) {
            size_t n = std::min(block, bytes - at) / item;
            auto source = [&](int r) { return (r == rank_ ? mine : slot(r) + static_cast<size_t>(rank_) * part) + at; };
            char* out = q.out[0].data + start + at;
            join(q.dtype, q.op, out, source(0), source(1), n);
            for (int r = 2; r < size_; r++) join(q.dtype, q.op, out, out, source(r), n);
            if (q.op == Join::Average) divide(q.dtype, out, n, size_);
        }
        end_epoch();
        start += part;
    } while (start < longest);
}

void Group::gather() {
    const Request& q = *request_;
    Span x = q.in[0];
    size_t start = 0;
    do {
        size_t bytes = std::min(slot_, x.bytes - start);
        begin_epoch();
        if (rank_ != q.root) copy_bytes(slot(rank_), x.data + start, bytes);
        post(1);
        if (first_) await_all(1);
        if (rank_ == q.root)
            for (int r = 0; r < size_; r++) {
                if (r != rank_) await_post(r, 1);
                copy_bytes(q.out[static_cast<size_t>(r)].data + start, r == rank_ ? x.data + start : slot(r), bytes);
            }
        end_epoch();
        start += bytes;
    } while (start < x.bytes);
}

void Group::scatter() {
    const Request& q = *request_;
    Span x = q.out[0];
    size_t part = slot_ / static_cast<size_t>(size_) / 64 * 64, start = 0;
    do {
        size_t bytes = std::min(part, x.bytes - start);
        begin_epoch();
        if (rank_ == q.root)
            for (int r = 0; r < size_; r++) {
                char* to = r == rank_ ? x.data + start : slot(rank_) + static_cast<size_t>(r) * part;
                copy_bytes(to, q.in[static_cast<size_t>(r)].data + start, bytes);
            }
        post(1);
        if (first_) await_all(1);
        if (rank_ != q.root) {
            await_post(q.root, 1);
            copy_bytes(x.data + start, slot(q.root) + static_cast<size_t>(rank_) * part, bytes);
        }
        end_epoch();
        start += bytes;
    } while (start < x.bytes);
}

// Sizes differ from pair to pair, so in the first epoch every rank publishes all of them: each must know how many bytes
// follow, and that they are what it expects.
void Group::all_to_all() {
    const Request& q = *request_;
    size_t count = static_cast<size_t>(size_);
    begin_epoch();
    auto* sizes = reinterpret_cast<uint64_t*>(slot(rank_));
    for (size_t r = 0; r < count; r++) sizes[r] = q.in[r].bytes, sizes[count + r] = q.out[r].bytes;
    post(1);
    await_all(1);
    uint64_t longest = 0;
    int wrong = -1;
    for (int r = 0; r < size_; r++) {
        auto* theirs = reinterpret_cast<uint64_t*>(slot(r));
        for (int other = 0; other < size_; other++) {
            longest = std::max(longest, theirs[other]);
            if (theirs[other] != reinterpret_cast<uint64_t*>(slot(other))[size_ + r]) wrong = r;
        }
    }
    end_epoch();
    if (wrong >= 0) throw Failure{{Outcome::Mismatch, wrong, ""}};
    size_t part = slot_ / count / 64 * 64;
    for (size_t start = 0; start < longest; start += part) {
        auto length = [&](const Span& span) { return std::min(part, span.bytes - std::min(start, span.bytes)); };
        begin_epoch();
        for (size_t r = 0; r < count; r++) copy_bytes(slot(rank_) + r * part, q.in[r].data + start, length(q.in[r]));
        post(1);
        for (int turn = 0; turn < size_; turn++) {
            int r = (rank_ + turn) % size_;
            if (r != rank_) await_post(r, 1);
            const Span& out = q.out[static_cast<size_t>(r)];
            copy_bytes(out.data + start, slot(r) + static_cast<size_t>(rank_) * part, length(out));
        }
        end_epoch();
    }
}

}  // namespace fb::cluster
