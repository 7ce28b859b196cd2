-- allow decides one admission and charges it when it may happen now; a refusal writes nothing. Asked again with the
-- token of an admission that is still remembered, it answers as it did then: every token while a rolling log holds it,
-- the most recent one for the other algorithms.
--
-- KEYS[1]  state of the plan
-- KEYS[2]  log of the cap
-- ARGV[1]  token of the admission, at most 64 bytes
-- ARGV[2…] the plan, see read_plan
--
-- Result   {allowed (1 or 0), at in µs, now in µs, number of the rule that decides (0: none)}; for a refusal `at` is
--          the earliest moment at which it could be allowed.
local plan = read_plan(2, KEYS[1], KEYS[2])
local token = ARGV[1]
local now = now_micros()

local function granted()
  if plan.state_max > 0 and plan.algorithm ~= ROLLING then
    local last = redis.call('HMGET', plan.state, 'm', 'a')
    return last[1] == token and tonumber(last[2]) or nil
  end
  if plan.state_max > 0 then return tonumber(redis.call('ZSCORE', plan.state, token) or nil) end
  if plan.has_cap then return tonumber(redis.call('ZSCORE', plan.cap, token) or nil) end
  return nil
end

local earlier = granted()
if earlier then return { 1, earlier, now, 0 } end
local at, why = decide(plan, now, nobody)
if at > now then return { 0, at, now, why } end
charge(plan, now, at, token)
if plan.state_max > 0 and plan.algorithm ~= ROLLING then
  redis.call('HSET', plan.state, 'm', token, 'a', digits(at))
end
return { 1, at, now, 0 }
