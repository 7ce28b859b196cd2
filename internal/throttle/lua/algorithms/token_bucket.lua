-- A token bucket refills `max` tokens per `per`: `from` is a moment, `load` what the bucket lacks to be full at that
-- moment, `owed` what was charged beyond an empty bucket since it last had a token. A token is `per` units, and each µs
-- brings `max` units. So all are whole numbers, and nothing is rounded away while max·per is below 2^53.

local function debt(c, rule, at)
  if not c.from then return 0 end
  return math.max(0, c.load - (at - c.from) * rule.max)
end

return {
  -- Each limit has a bucket of its own: one that empties and refills with another limit does not know what this limit
  -- still counts.
  own = true,

  passed = function(c, rule, at) return debt(c, rule, at) == 0 end,

  bound = function(c, rule)
    return c.from and c.from + math.ceil((c.load + rule.per - rule.max * rule.per) / rule.max)
  end,

  -- charge never moves a bucket back in time: an admission that comes after a grant for a later moment counts at that
  -- moment. Otherwise the bucket could overflow, and be fuller at that moment than it was.
  charge = function(c, rule, at)
    local full = rule.max * rule.per
    at = math.max(at, c.from or at)
    c.load = debt(c, rule, at) + rule.per
    c.from = at
    if c.load > full then
      -- It bypassed the limit. A refund first gives back what the bucket could not give.
      c.owed = c.owed + c.load - full
      c.load = full
    else
      c.owed = 0
    end
  end,

  -- refund gives back no more than what the refill since then cannot have replaced. Without the admission the bucket
  -- might have been full meanwhile, and what flows into a full bucket is lost. What the bucket owes comes first. An
  -- admission later than the bucket's moment was made before the clock was set back: nobody knows what was refilled
  -- since, so nothing is given back.
  refund = function(c, rule, at)
    local back = rule.per - (c.from - at) * rule.max
    if at > c.from or back <= 0 then return false end
    local paid = math.min(back, c.owed)
    c.owed = c.owed - paid
    c.load = math.max(0, c.load - (back - paid))
    return true
  end,

  usage = function(c, rule, now)
    local lacking = debt(c, rule, now)
    if lacking == 0 then return 0, 0 end
    local used = math.ceil(lacking / rule.per)
    return used, now + math.ceil((lacking - (used - 1) * rule.per) / rule.max)
  end,
}
