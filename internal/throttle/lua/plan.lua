-- What a plan is. This file is put before every script that checks or charges a plan: those of this package, and those
-- of the agendas. It only defines locals. Each function costs a little in every run of a script, so functions that not
-- every script needs have files of their own (clock_set_back.lua, refund.lua, usage.lua), or are made when they are
-- needed (counters.lua).
--
-- A plan limits one key. Its state:
--   rolling        sorted set   see log.lua, which stands before this
--   fixed_window   hash         s<per> start of the window in µs, n<per> admissions in it
--   token_bucket   hash         s<per>/<max> a moment in µs, the same for all; n<per>/<max> what the bucket lacks at that moment,
--                               o<per>/<max> what was charged beyond an empty bucket since it last had a token
--   both hashes                 m, a: token and moment of the admission that was written last; g: the moment from which a
--                               gap counts; p: the moment from which it counts once that admission is refunded; x<per>,
--                               or x<per>/<max>: the latest moment of what was admitted before the limit was known (0:
--                               nothing was), since a refund of that takes nothing out. Windows of rules that are no
--                               longer in force stay, and are charged, until they have passed: a rule that comes back
--                               finds them
-- The cap is always a rolling sorted set of its own.
--
-- Times are µs since the epoch on this server's clock. They are below 2^53, so a double holds them exactly. `digits`
-- writes them, since Lua's own conversion keeps only 14 digits.

-- Algorithms have the letter that is in the names of their keys. Rolling is the one that keeps a log; the functions of
-- the others are in algorithms/.
local ROLLING = 'l'
local KIND_LIMIT, KIND_GAP, KIND_CAP, KIND_DORMANT = 0, 1, 2, 3

-- No admission is written further ahead than this (10 s in µs). What is further ahead was written before the clock was
-- set back.
local FAR_AHEAD = 10000000

-- read_plan reads a plan from ARGV, beginning at index i: the algorithm's letter, the number of rules, then max, per in
-- µs and kind of each (0 limit, 1 gap, 2 cap, 3 a dormant limit, which is only counted). It returns the plan and the
-- index after it. A plan remembers what it read of its state, so a script that charges must have one plan object for
-- each state key, not two.
local function read_plan(i, state_key, cap_key)
  local plan = {
    algorithm = ARGV[i], state = state_key, cap = cap_key, rules = {}, dormant = {},
    state_log = { max = 0, per = 0 }, cap_log = { max = 0, per = 0 },
  }
  local count = tonumber(ARGV[i + 1])
  i = i + 2
  for _ = 1, count do
    local max, per, kind = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    local rule = { max = max, per = per, kind = kind, arg = i }
    local among = kind == KIND_DORMANT and plan.dormant or plan.rules
    among[#among + 1] = rule
    local log = kind == KIND_CAP and plan.cap_log or plan.state_log
    if max > log.max then log.max = max end
    if per > log.per then log.per = per end
    i = i + 3
  end
  return plan, i
end

-- copy_log returns a copy of a log of which nothing is known yet. A log that no rule counts in is never read.
local function copy_log(log)
  if log.max == 0 then return log end
  return { max = log.max, per = log.per }
end

-- copy_plan returns a plan with the same rules for other keys.
local function copy_plan(plan, state_key, cap_key)
  return {
    algorithm = plan.algorithm, state = state_key, cap = cap_key, rules = plan.rules, dormant = plan.dormant,
    state_log = copy_log(plan.state_log), cap_log = copy_log(plan.cap_log),
  }
end

