// Collectives between processes of one host, through shared memory.
//
// Note [Shared segment]: each rank has a seat with counters that others wait for, and two slots of memory that it alone
// writes to. Calls proceed in epochs, which all ranks count alike. In epoch e a rank writes to its slot e % 2, posts 2e
// + 1, waits for others to post, reads their slots, and, in reductions, posts 2e + 2 when its part of the result is in
// its slot. When it has read all it needs, it has finished e. A slot is written again in epoch e + 2, once all ranks
// have finished e, which is usually long before.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/join.h"
#include "cluster/peers.h"

namespace fb::cluster {

enum class Call : int { AllReduce, Reduce, Broadcast, AllGather, ReduceScatter, Gather, Scatter, AllToAll, Barrier };

struct Span {
    char* data = nullptr;
    size_t bytes = 0;
};

struct Request {
    Call call = Call::Barrier;
    Join op = Join::Sum;
    DType dtype = DType::U8;
    int root = 0;
    std::string text;  // describes the call; the same on all ranks
    double seconds = 0;
    std::vector<Span> in, out;          // in calls that change a tensor in place, out[0]; all_reduce takes several
    std::function<bool()> interrupted;  // asked now and then; true ends the call
};

enum class Outcome : int { Done, Mismatch, Lost, Left, Late, Interrupted };

struct Answer {
    Outcome outcome = Outcome::Done;
    int rank = -1;     // whose text differs, or who is lost (rank of the program) or late (rank of the group)
    std::string text;  // of that rank's call
};

class Group {
  public:
    // Size of a segment for these parameters, in bytes.
    static size_t bytes(int size, size_t slot);
    // `memory` is mapped by all ranks and initially zero; `ranks` are those of the program.
    Group(char* memory, int rank, std::vector<int> ranks, size_t slot);
    Answer run(const Request& request);

  private:
    struct Seat;
    struct Failure {
        Answer answer;
    };
    Seat& seat(int rank) const;
    char* slot(int rank) const;  // of the current epoch
    void begin_epoch();
    void post(int phase);
    void await_post(int rank, int phase);
    void await_all(int phase);
    void end_epoch();
    void await(int rank, const std::atomic<uint32_t>& word, uint32_t target);
    void check_calls();

    void all_reduce(bool everywhere);
    void all_reduce_small(bool everywhere);
    void broadcast();
    void all_gather();
    void reduce_scatter();
    void gather();
    void scatter();
    void all_to_all();

    char* memory_;
    int rank_, size_;
    std::vector<int> ranks_;
    size_t slot_;
    uint32_t epoch_ = 0;
    bool first_ = true;             // epoch of a call, in which the calls are compared
    int cores_, spins_, patience_;  // see Note [Waiting for a rank]
    int detour_ = 0;                // so many waits do without handing over the core
    const Request* request_ = nullptr;
    int64_t end_ = 0;  // deadline of the call, in nanoseconds
    std::shared_ptr<Peers> peers_;
};

}  // namespace fb::cluster
