-- takes is what ticks of one lane ask when they come off the queue. Each question is answered by itself, in turn, by the
-- function `ask` before this, which is the functions and take.lua; but for the commonest case, in the fewest steps, here:
-- the tick's own notification is all that its mailbox holds, without expiry and collapse key, the category is rolling,
-- and it may go now. For everything else that case falls through to `ask`, having changed nothing. It does without the
-- functions, but for those on logs, since loading them costs as much as it does itself; what it decides and charges must be
-- what they would. What can be written for all together is: leases, the index of mailboxes, counts.
--
-- KEYS[1]  the lane's prefix
-- ARGV[1]  horizon in µs: a slot that close is granted now, for its own moment
-- ARGV[2]  lease in µs
-- ARGV[3]  retention of ended notifications in ms
-- ARGV[4]  grace of the sweeper in µs
-- ARGV[5]  how many terms follow; each is how many arguments it has, then those: max_defer in µs, priority that bypasses,
--          with every more urgent one (0: none, 9: all), the plan, see read_plan
-- then     questions, of six arguments each: category, user, tick, nonce (asked twice with it, the answer is the same),
--          1 when the tick has just been pulled off the queue or 0 when it asks again, number of its terms
--
-- Result   an answer each, as take.lua tells; {"error", text} in place of one that could not be given: an error inside a
--          list would leave the driver out of step, see docs/upstream.md
local call, ARGV = redis.call, ARGV
local lane = KEYS[1]
local horizon, lease = tonumber(ARGV[1]), tonumber(ARGV[2])
local moment_of = redis.call('TIME')
local now = tonumber(moment_of[1]) * 1000000 + tonumber(moment_of[2])

local terms, first = {}, 6
for _ = 1, tonumber(ARGV[5]) do
  terms[#terms + 1] = first
  first = first + tonumber(ARGV[first]) + 1
end

local names = {}
for i = first, #ARGV, 6 do names[#names + 1] = ARGV[i] .. ':' .. ARGV[i + 1] end
-- Mailboxes with deferred ones, until somebody's `ask` may have changed that.
local deferred = call('HMGET', lane .. 'd', unpack(names))
local function has_deferred(n)
  if deferred then return deferred[n] end
  return call('HEXISTS', lane .. 'd', names[n]) == 1
end

local leases, emptied = {}, {}

local function alone(i, n)
  local name, tick, t = names[n], ARGV[i + 2], terms[tonumber(ARGV[i + 5])]
  -- At t: max_defer, bypass, algorithm, number of rules, rules, each after the one before.
  if ARGV[i + 4] ~= '1' or ARGV[t + 3] ~= '0' or has_deferred(n) then return nil end
  local line = call('ZRANGE', lane .. 'w:' .. name, 0, 1)
  if #line ~= 1 or line[1] ~= tick or call('EXISTS', lane .. 'r:' .. name) == 1 then return nil end
  local key = lane .. 'n:' .. tick
  -- v arrival, p priority, g generation, o times returned, f failures, b payload, e expires, k collapse key,
  -- r what the tick was granted before, d deferrals, h history
  local f = call('HMGET', key, 'v', 'p', 'g', 'o', 'f', 'b', 'e', 'k', 'r', 'd', 'h')
  if not f[1] or f[7] or f[8] then return nil end
  local bypasses = tonumber(f[2]) <= tonumber(ARGV[t + 2])
  local keys = { lane .. 'l:' .. name, lane .. 'u:' .. ARGV[i + 1] }
  local logs = { { max = 0, per = 0 }, { max = 0, per = 0 } }
  local at, why = now, 0
  for rule = 1, tonumber(ARGV[t + 4]) do
    local r = t + 2 + 3 * rule
    local n, span, kind = tonumber(ARGV[r]), tonumber(ARGV[r + 1]), ARGV[r + 2]
    local which = kind == '2' and 2 or 1
    local log = logs[which]
    if n > log.max then log.max, log.nth = n, nil end
    if span > log.per then log.per = span end
    if log.newest == nil then log.newest = nth_newest(keys[which], 1) or false end
    if kind ~= '3' then -- a dormant rule refuses nothing
      local score = log.newest -- a user's log is mostly empty: asked once for all its rules
      if score and n > 1 then score = nth_newest(keys[which], n) end
      if n == log.max then log.nth = score or false end
      if score and not bypasses and score + span > at then at, why = score + span, rule end
    end
  end
  if at > now + horizon then return nil end
  local moment, generation = digits(at), tonumber(f[3] or 0) + 1
  local token = tick .. '#' .. generation
  call('DEL', lane .. 'w:' .. name, lane .. 't:' .. name)
  for which = 1, 2 do
    if logs[which].max > 0 then charge_log(keys[which], logs[which], now, at, token) end
  end
  call('HSET', key, 's', 's', 'g', generation, 'm', moment, 'q', ARGV[i + 3])
  if f[9] then call('HDEL', key, 'r') end
  leases[#leases + 1] = string.format('%.0f', at + lease)
  leases[#leases + 1] = tick
  emptied[#emptied + 1] = name
  return { 'run', now, at, why, tick, generation, generation - tonumber(f[4] or 0), tonumber(f[5] or 0),
    tonumber(f[1]) + 1577836800000000, f[6], '', 0, tonumber(f[10] or 0), f[11] or '', EPOCH }
end

-- in_full puts together what take.lua reads, and asks.
local function in_full(i)
  local t = terms[tonumber(ARGV[i + 5])]
  deferred = nil
  return ask({ ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[1], ARGV[2], ARGV[t + 1], ARGV[t + 2],
    ARGV[3], ARGV[4], unpack(ARGV, t + 3, t + tonumber(ARGV[t])) })
end

local answers = {}
for i = first, #ARGV, 6 do
  local n = #answers + 1
  local well, answer = pcall(function() return alone(i, n) or in_full(i) end)
  if not well then answer = { 'error', type(answer) == 'table' and answer.err or tostring(answer) } end
  answers[n] = answer
end
if #emptied > 0 then
  call('ZADD', lane .. 'e', unpack(leases))
  call('ZREM', lane .. 'm', unpack(emptied))
  call('HINCRBY', lane .. 'c', 'w', #emptied)
end
return answers
