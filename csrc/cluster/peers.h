// The known states of the program's other processes, for code that waits for them.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

namespace fb::cluster {

enum class Peer : int { Here, Left, Closed, Silent, Reported };

struct Peers {
    explicit Peers(int size) : states(static_cast<size_t>(size)) {}
    std::vector<std::atomic<Peer>> states;  // by rank
    std::atomic<int> lost{-1};              // the first rank that was lost; ends all communication
};

// For the program this process is part of; null if it runs alone.
std::shared_ptr<Peers> peers();
void set_peers(std::shared_ptr<Peers> value);

}  // namespace fb::cluster
