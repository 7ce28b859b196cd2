-- refund takes back an admission that surely had no effect. Taking back what is not there changes nothing.
--
-- KEYS[1]  state of the plan
-- KEYS[2]  log of the cap
-- ARGV[1]  token of the admission
-- ARGV[2]  its moment in µs, as allow answered it
-- ARGV[3…] the plan, see read_plan
local plan = read_plan(3, KEYS[1], KEYS[2])
if plan.state_max > 0 and plan.algorithm ~= ROLLING then
  -- Counters know no tokens: the most recent one is the only one that can be told from a repeated refund.
  if redis.call('HGET', plan.state, 'm') ~= ARGV[1] then
    if plan.has_cap then redis.call('ZREM', plan.cap, ARGV[1]) end
    return 0
  end
  redis.call('HDEL', plan.state, 'm', 'a')
end
refund(plan, tonumber(ARGV[2]), ARGV[1])
return 1
